"""Messages go to the queues that Spark's ``xxhash64`` says, in Python and in SQL alike, or to those of Kafka's clients."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log import Routing, queue_of
from penstock.log.message.routing import Router

# Computed by Spark 4.2: SELECT xxhash64(g), pmod(xxhash64(g), 16)
FROM_SPARK = [
    ("", -7444071767201028348, 4),
    ("a", -8582455328737087284, 12),
    ("user-7", -8425513430607670424, 8),
    ("order-1", -8857238006990297597, 3),
    ("Grün", 2998738132610276347, 11),
    ("日本語", -619341062884681239, 9),
    ("😀", -5869505314936196641, 15),
    ("x" * 31, -1716462135722163746, 14),
    ("x" * 32, 1299777543150008824, 8),
    ("x" * 33, -2751654916054470392, 8),
    ("y" * 63, 5631487540603640990, 14),
    ("customers-1", -7095411451903319848, 8),
    ("0", -6091425354261976140, 4),
    ("e\u0301".replace("e", "é"), 8943963152865859109, 5),
]


@pytest.mark.parametrize(("group", "hashed", "queue"), FROM_SPARK)
def test_queues_are_those_of_spark(group: str, hashed: int, queue: int) -> None:
    assert queue_of(group, 16) == queue
    for queues in (1, 2, 3, 7, 100, 4096):
        assert queue_of(group, queues) == hashed % queues


# Of Kafka's UtilsTest: what Java's Utils.murmur2 gives
FROM_KAFKA = [
    ("21", -973932308),
    ("foobar", -790332482),
    ("a-little-bit-long-string", -985981536),
    ("a-little-bit-longer-string", -1486304829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ("abc", 479470107),
]


@pytest.mark.parametrize(("group", "hashed"), FROM_KAFKA)
def test_murmur2_is_that_of_kafkas_java_client(group: str, hashed: int) -> None:
    for queues in (1, 2, 3, 7, 100, 4096):
        assert queue_of(group, queues, Routing.MURMUR2) == (hashed & 0x7FFFFFFF) % queues


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(TEXTS, st.integers(1, 300))
def test_murmur2_agrees_with_another_client_of_kafka(group: str, queues: int) -> None:
    oracle = pytest.importorskip("kafka.partitioner.default")
    assert queue_of(group, queues, Routing.MURMUR2) == (oracle.murmur2(group.encode()) & 0x7FFFFFFF) % queues


@given(TEXTS, st.integers(1, 300))
def test_crc32_is_that_of_librdkafka(group: str, queues: int) -> None:
    assert queue_of("123456789", 2**32, Routing.CRC32) == 0xCBF43926, "as every CRC-32 of this kind"
    assert queue_of(group, queues, Routing.CRC32) == zlib.crc32(group.encode()) % queues


@pytest.mark.parametrize("routing", Routing)
def test_a_router_goes_by_its_routing(routing: Routing) -> None:
    groups = [group for group, _, _ in FROM_SPARK]
    routed = Router(16, routing).route(pa.array(groups)).tolist()
    assert routed == [queue_of(group, 16, routing) for group in groups]
    assert sum(queue != queue_of(group, 16) for group, queue in zip(groups, routed, strict=True)) > 8 or routing == "xxhash64"


GROUPS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=40)


@given(GROUPS, st.integers(1, 300), st.integers(0, 299))
def test_a_router_agrees_and_takes_queues_in_turn_without_a_group(groups: list[str | None], queues: int, first: int) -> None:
    router = Router(queues, first=first % queues)
    turn = first % queues
    for _ in range(2):
        routed = router.route(pa.array(groups, pa.string()))
        for group, queue in zip(groups, routed.tolist(), strict=True):
            if group is None:
                assert queue == turn
                turn = (turn + 1) % queues
            else:
                assert queue == queue_of(group, queues)


@given(st.lists(st.integers(0, 40), max_size=4), st.integers(1, 9), st.integers(0, 8))
def test_rows_in_runs_are_as_many_for_each_queue_as_in_turn(counts: list[int], queues: int, first: int) -> None:
    runs, turns = (Router(queues, first=first % queues) for _ in range(2))
    for count in counts:
        groups = pa.nulls(count, pa.string())
        assert runs.route(groups, in_runs=True).tolist() == sorted(turns.route(groups).tolist())


def test_rows_with_groups_go_to_their_queues_in_runs_too() -> None:
    groups = pa.array(["user-7", None, "a", None])
    assert Router(16).route(groups, in_runs=True).tolist() == Router(16).route(groups).tolist() == [8, 0, 12, 1]


def test_a_router_remembers_only_so_many_groups() -> None:
    router = Router(16)
    router._REMEMBERED_MAX = 10
    groups = [f"g{n}" for n in range(100)]
    assert router.route(pa.array(groups)).tolist() == [queue_of(group, 16) for group in groups]
    assert len(router._queue_of) <= 10
