"""Messages go to the queues that Spark's ``xxhash64`` says, in Python and in SQL alike."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log import queue_of
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
