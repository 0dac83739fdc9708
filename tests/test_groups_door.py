"""Consumer groups by the public API, as operators see them: made, described, reset, released; on lakes in memory and in folders."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import aio
from penstock.coordinator import Coordination, WorkerState
from penstock.coordinator.cell import Marker, QueueCell, State, Tries
from penstock.coordinator.keys import worker_key
from penstock.coordinator.lease import Heartbeat, Listed, encode_heartbeat
from penstock.coordinator.offsets import OffsetSet
from penstock.coordinator.tables import MemoryTable
from penstock.log import Runtime
from penstock.log.stores import MemoryStore
from tests.cells import change_cell, parked
from tests.lakes import TIMEOUT_S, keys
from tests.log.test_reader import publish
from tests.log.topics import HandClock

Message = penstock.Message
MINUTE = timedelta(minutes=1)


class Shop:
    """A lake in memory with a clock moved by hand, a topic of two queues, and cells written as consumers would."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.runtime = Runtime(clock=self.clock)
        self.store = MemoryStore(clock=self.clock)
        self.lake = penstock.connect(store=self.store, runtime=self.runtime)
        self.lake.create_topic("orders", message_type="FIFO", queues=2)
        self.sent: defaultdict[int, list[str]] = defaultdict(list)

    def send(self, queue: int, *groups: str) -> None:
        """A message of each of these message groups, to one queue, a minute after what was sent before."""
        self.clock.advance(seconds=60)
        with self.lake.producer("orders", linger=timedelta(0)) as producer:
            for group in groups:
                receipt = producer.send(Message(b"body", message_group=group, tag="t"), queue=queue)
                self.sent[queue].append(receipt.result(timeout=TIMEOUT_S).message_id)

    def begin(self, *offsets: int, group: str = "billing") -> None:
        """As the first consumer does."""
        for queue, offset in enumerate(offsets):
            assert self.lake.reset_offsets("orders", group, offset, queues=None if queue == 0 else [queue])[queue] == offset

    def change(self, queue: int, change: Callable[[QueueCell], QueueCell] = lambda cell: cell) -> QueueCell:
        """What the owner of a queue does to its cell."""
        return change_cell(lambda: aio.connect(store=self.store, runtime=self.runtime), queue, change)


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    made.lake.create_group("billing")
    with made.lake:
        yield made


# --- Made, altered, deleted ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coordination", [None, "store", "sqlite"])
def test_a_group_s_life_in_a_folder(tmp_path: Path, coordination: str | None) -> None:
    url = f"sqlite://{tmp_path}/elsewhere/cells.db" if coordination == "sqlite" else coordination
    retry = penstock.RetryPolicy(interval=timedelta(seconds=7))
    with penstock.connect(tmp_path / "lake", coordination=url) as lake:
        made = lake.create_group("billing", retry=retry, max_attempts=None, filters={"orders": "a||b"})
        assert made == penstock.GroupSettings(retry=retry, max_attempts=None, filters={"orders": "a||b"})
        lake.create_group("audit", delivery_order="CONCURRENT")
    with penstock.connect(tmp_path / "lake", coordination=url) as lake:
        assert lake.create_group("billing", retry=retry, max_attempts=None, filters={"orders": "b || a"}) == made
        found = lake.groups()
        assert list(found) == ["audit", "billing"]
        assert found["audit"].retry.schedule is penstock.Schedule.ROCKETMQ
        altered = lake.alter_group("billing", max_attempts=3, dead_letter_policy="park", filters={})
        assert altered == replace(made, max_attempts=3, dead_letter_policy=penstock.DeadLetterPolicy.PARK, filters={})
        assert lake.groups()["billing"] == altered
        assert lake.describe_group("billing").queues == ()
        lake.delete_group("billing")
        assert list(lake.groups()) == ["audit"]
        with pytest.raises(penstock.GroupNotFound, match=r"no such consumer group.*billing"):
            lake.describe_group("billing")
        assert lake.create_group("billing", max_attempts=1).max_attempts == 1
    assert (tmp_path / "lake" / ".penstock" / "coordination.db").exists() == (coordination is None)
    assert (tmp_path / "lake" / "coordination" / "groups").exists() == (coordination == "store")
    assert (tmp_path / "elsewhere" / "cells.db").exists() == (coordination == "sqlite")


def test_a_lake_that_was_moved_keeps_its_groups(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "before") as lake:
        lake.create_group("billing")
    (tmp_path / "before").rename(tmp_path / "after")
    with penstock.connect(tmp_path / "after") as lake:
        assert list(lake.groups()) == ["billing"]


def test_two_lakes_in_one_file_of_cells_are_told(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/cells.db"
    with penstock.connect(tmp_path / "one", coordination=url) as lake:
        lake.create_group("billing")
    with penstock.connect(tmp_path / "two", coordination=url) as lake:
        for call in (lambda: lake.create_group("billing"), lambda: lake.describe_group("billing"), lake.groups):
            with pytest.raises(
                penstock.TableMismatch, match=r"another lake's.*cells.db.*expected.*/two; observed.*/one.*a file of its own"
            ):
                call()


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"name": "a b"}, penstock.InvalidArgument, "bad consumer group name.*a b"),
        ({"name": "x" * 123}, penstock.LimitExceeded, "at most 122 characters"),
        ({"delivery_order": "FIFO"}, penstock.InvalidArgument, "no such delivery_order.*ORDERLY, CONCURRENT.*FIFO"),
        ({"max_attempts": 0}, penstock.InvalidArgument, "max_attempts must be a positive whole number"),
        ({"retry": 3}, penstock.InvalidArgument, "retry must be a RetryPolicy.*int"),
        ({"dead_letter_policy": "drop"}, penstock.InvalidArgument, "no such dead_letter_policy.*continue, park.*drop"),
        (
            {"delivery_order": "CONCURRENT", "dead_letter_policy": "park"},
            penstock.InvalidArgument,
            "only an ORDERLY group can park",
        ),
        ({"filters": {"orders": "a |"}}, penstock.InvalidArgument, "bad tag filter.*a |"),
        ({"filters": {"or ders": "a"}}, penstock.InvalidArgument, "bad topic name.*or ders"),
        ({"filters": ["orders"]}, penstock.InvalidArgument, "filters must be a mapping"),
        (
            {"delivery_order": "CONCURRENT"},
            penstock.GroupExists,
            r"exists with other settings.*billing.*expected.*'delivery_order': 'CONCURRENT'.*observed.*'delivery_order': 'ORDERLY'",
        ),
    ],
)
def test_a_group_that_cannot_be_made(shop: Shop, settings: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        shop.lake.create_group(**{"name": "billing", **settings})
    assert shop.lake.groups() == {"billing": penstock.GroupSettings()}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"delivery_order": "CONCURRENT"}, "delivery_order cannot be changed.*retry, max_attempts.*of another name"),
        ({"colour": "red"}, "colour cannot be changed"),
        ({"max_attempts": -1}, "max_attempts must be a positive whole number"),
        ({"filters": {"orders": "|"}}, "bad tag filter"),
    ],
)
def test_what_cannot_be_altered(shop: Shop, changes: Mapping[str, object], said: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=said):
        shop.lake.alter_group("billing", **changes)
    assert shop.lake.groups() == {"billing": penstock.GroupSettings()}


def test_a_lake_opened_for_reading_writes_no_cell(shop: Shop) -> None:
    shop.send(0, "ann")
    shop.begin(0, 0)
    before = keys(shop.store)
    with penstock.connect(store=shop.store, runtime=shop.runtime, read_only=True) as lake:
        assert list(lake.groups()) == ["billing"]
        assert lake.describe_group("billing").lag == 1
        assert lake.parked("billing") == []
        assert lake.workers() == []
        for call in (
            lambda: lake.create_group("audit"),
            lambda: lake.alter_group("billing", max_attempts=1),
            lambda: lake.delete_group("billing"),
            lambda: lake.reset_offsets("orders", "billing", "latest"),
            lambda: lake.release("billing"),
            lambda: lake.skip("billing"),
        ):
            with pytest.raises(penstock.ReadOnlyError, match="read_only=True"):
                call()
    assert keys(shop.store) == before


def test_reading_a_folder_leaves_no_file_of_cells(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "lake") as lake:
        lake.create_topic("orders")
    with penstock.connect(tmp_path / "lake", read_only=True) as lake:
        assert lake.groups() == {}
    assert not (tmp_path / "lake" / ".penstock" / "coordination.db").exists()


def test_the_same_on_an_event_loop_of_the_caller_s() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_group("billing", filters={"orders": "a"})
            assert (await lake.alter_group("billing", max_attempts=2)).max_attempts == 2
            assert (await lake.describe_group("billing")).settings == (await lake.groups())["billing"]
        with pytest.raises(penstock.ClosedError, match="the lake is closed"):
            await lake.groups()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S), debug=True)


# --- Members that live -----------------------------------------------------------------------------------------------------------------


class Town:
    """A lake whose workers have a short lease."""

    def __init__(self) -> None:
        self.lake = aio.connect("memory://")
        self.lake._coordination = Coordination(MemoryTable(), self.lake.runtime, lease_s=0.3, label="mine")


def test_a_group_with_a_member_that_lives_is_not_deleted_unless_forced() -> None:
    async def main() -> None:
        async with Town().lake as lake:
            member = await lake.coordination.worker.join("billing", ["orders"])
            await lake.create_group("billing")
            await lake.coordination.groups.update("billing", lambda record: record.joined_by(member.id))
            with pytest.raises(penstock.GroupInUse, match=f"members of the consumer group live.*billing.*{member.id}.*force it"):
                await lake.delete_group("billing")
            (worker,) = await lake.workers()
            assert (worker.state, worker.worker) == (WorkerState.LIVES, member.id.partition("/")[0])
            assert worker.heartbeat is not None
            assert worker.heartbeat.members == (Listed(1, "billing", ("orders",)),)
            await lake.delete_group("billing", force=True)
            assert await lake.groups() == {}

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_a_group_whose_members_are_all_over_is_deleted() -> None:
    async def main() -> None:
        async with Town().lake as lake:
            await lake.create_group("billing")
            worker = lake.coordination.worker
            staying, leaving = [await worker.join("audit"), await worker.join("billing")]
            await leaving.leave()
            dead = Heartbeat(worker="dead", lease_ms=200, members=(Listed(1, "billing"),))
            fenced = Heartbeat(worker="fenced", lease_ms=60_000, members=(Listed(1, "billing"),), fenced=True)
            for one in (dead, fenced):
                await lake.coordination.cells.write(worker_key(one.worker), encode_heartbeat(one), on=None, deadline_s=9e18)
            for member in (leaving.id, "dead/1", "fenced/1", "gone/1"):
                await lake.coordination.groups.update("billing", lambda record, member=member: record.joined_by(member))  # type: ignore[misc]
            await lake.delete_group("billing")
            assert await lake.groups() == {}
            assert staying.may_start()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


# --- Described -------------------------------------------------------------------------------------------------------------------------


def test_a_description_counts_what_is_in_the_cells(shop: Shop) -> None:
    shop.send(0, *["ann"] * 3)
    shop.send(0, *["bob"] * 9)
    shop.send(1, "cid")
    shop.clock.advance(seconds=60)
    shop.begin(0, 0)

    def worked(cell: QueueCell) -> QueueCell:
        cell = cell.taken_by("w/1").with_granted(OffsetSet.of([(0, 10)])).with_settled(OffsetSet.of([(0, 2), (4, 5)]))
        cell = cell.failed(2, due_ms=5).blocked(77, 3, due_ms=9, behind=OffsetSet.of([(5, 6)]))
        cell = cell.with_tries(6, Tries(State.OUT, 1)).with_tries(7, Tries(State.SUSPECT, 2)).with_dead_letter(8)
        return replace(cell, markers={**cell.markers, 78: parked(5)})

    shop.change(0, worked)
    found = shop.lake.describe_group("billing")
    queue = found.queues[0]
    assert (queue.topic, queue.queue, queue.owner, queue.epoch, queue.generation) == ("orders", 0, "w/1", 1, 0)
    assert (queue.floor, queue.next_offset) == (9, 12)
    # 9 granted, 10 and 11 fresh, 2 waiting, 6 out, 7 suspect, 3 blocked, 5 parked
    assert queue.lag == 8
    assert (queue.in_flight, queue.waiting, queue.blocked, queue.parked) == (2, 1, 1, 1)
    assert (queue.suspects, queue.dead_letters) == (1, 1)
    assert queue.lag_time == 3 * MINUTE, "of message 2"
    other = found.queues[1]
    assert (other.owner, other.epoch, other.floor, other.next_offset, other.lag, other.lag_time) == ("", 0, 0, 1, 1, MINUTE)
    assert (found.lag, found.lag_time) == (9, 3 * MINUTE)


def test_a_group_that_has_settled_all_has_no_lag_until_the_next_message(shop: Shop) -> None:
    shop.send(0, "ann")
    shop.begin(0, 0)
    shop.change(0, lambda cell: cell.taken_by("w/1").with_granted(OffsetSet.of([(0, 1)])).with_settled(OffsetSet.of([(0, 1)])))
    found = shop.lake.describe_group("billing")
    assert (found.lag, found.lag_time) == (0, timedelta())
    shop.send(0, "ann")
    shop.clock.advance(seconds=7)
    found = shop.lake.describe_group("billing")
    assert (found.lag, found.lag_time) == (1, timedelta(seconds=7))


def test_the_lag_s_age_follows_the_oldest_message_through_the_table_and_the_log(shop: Shop) -> None:
    for _ in range(4):
        shop.send(0, "ann", "bob")
    publish(shop.store, shop.runtime)
    shop.send(0, "ann", "bob")
    shop.begin(0, 0)
    ages = []
    for floor in range(10):
        ages.append(shop.lake.describe_group("billing").lag_time // MINUTE)
        settled = OffsetSet.of([(floor, floor + 1)])
        shop.change(0, lambda cell, settled=settled: cell.with_granted(settled).with_settled(settled))  # type: ignore[misc]
    assert ages == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
    assert shop.lake.describe_group("billing").lag == 0


def test_what_retention_took_is_no_lag(shop: Shop) -> None:
    shop.lake.alter_topic("orders", retention=timedelta(hours=1))
    shop.send(0, "ann", "bob")
    publish(shop.store, shop.runtime)
    shop.begin(0, 0)
    shop.clock.advance(hours=2)
    shop.send(0, "cid")
    asyncio.run(_upkeep(shop))
    found = shop.lake.describe_group("billing").queues[0]
    assert (found.floor, found.next_offset, found.lag) == (0, 3, 1)


async def _upkeep(shop: Shop) -> None:
    from penstock.infra.cli.upkeep import maintain_once

    async with aio.connect(store=shop.store, runtime=shop.runtime) as lake:
        await maintain_once(lake, ["orders"], lambda *_: None)


def test_a_topic_that_is_gone_stays_in_the_description(shop: Shop) -> None:
    shop.send(0, "ann")
    shop.begin(0, 0)
    shop.lake.delete_topic("orders")
    found = shop.lake.describe_group("billing").queues
    assert [(one.next_offset, one.lag) for one in found] == [(None, 0), (None, 0)]
    shop.lake.create_topic("orders", message_type="FIFO", queues=3)
    shop.send(2, "ann")
    found = shop.lake.describe_group("billing").queues
    assert [(one.floor, one.next_offset, one.lag, one.generation) for one in found] == [(0, 0, 0, 2), (0, 0, 0, 2), (0, 1, 1, 2)]


# --- Reset -----------------------------------------------------------------------------------------------------------------------------


def test_a_group_is_reset_by_time_offset_and_to_either_end(shop: Shop) -> None:
    for queue in (0, 1):
        for _ in range(3):
            shop.send(queue, "ann", "bob")
    start = datetime.fromtimestamp(shop.clock.wall_ms() / 1000, UTC)
    places: list[tuple[Any, dict[int, int]]] = [
        ("latest", {0: 6, 1: 6}),
        ("earliest", {0: 0, 1: 0}),
        (4, {0: 4, 1: 4}),
        (start - 3 * MINUTE, {0: 4, 1: 0}),
        (start - MINUTE, {0: 6, 1: 2}),
    ]
    for generation, (place, offsets) in enumerate(places):
        assert shop.lake.reset_offsets("orders", "billing", place) == offsets
        found = shop.lake.describe_group("billing").queues
        assert {one.queue: one.floor for one in found} == offsets
        assert {one.generation for one in found} == {generation}
    assert shop.lake.reset_offsets("orders", "billing", "latest", queues=[1]) == {1: 6}
    found = shop.lake.describe_group("billing").queues
    assert [(one.floor, one.generation) for one in found] == [(6, 4), (6, 5)]


def test_a_reset_of_one_queue_leaves_what_others_have_done(shop: Shop) -> None:
    for queue in (0, 1):
        shop.send(queue, "ann", "bob")
    shop.begin(0, 0)
    done = OffsetSet.of([(0, 2)])
    for queue in (0, 1):
        shop.change(queue, lambda cell: cell.with_granted(done).with_settled(done))
    shop.lake.reset_offsets("orders", "billing", "earliest", queues=[0])
    assert shop.change(0).settled.floor == 0
    assert shop.change(1).settled.floor == 2


@pytest.mark.parametrize(
    ("place", "queues", "error", "said"),
    [
        ("yesterday", None, penstock.InvalidArgument, "a position is an offset, a datetime, 'earliest' or 'latest'.*yesterday"),
        (True, None, penstock.InvalidArgument, "a position is an offset"),
        (1.5, None, penstock.InvalidArgument, "a position is an offset"),
        (datetime(2026, 1, 1), None, penstock.InvalidArgument, "a time must have a zone.*2026-01-01"),  # noqa: DTZ001 - that is the point
        (-1, None, penstock.OffsetOutOfRange, "earliest kept is 0"),
        (2, None, penstock.OffsetOutOfRange, "queue 1.*the next one to be written is 1"),
        ("latest", [2], penstock.InvalidArgument, "no such queue.*0 to 1.*2"),
        ("latest", ["0"], penstock.InvalidArgument, "no such queue.*0 to 1"),
        ("latest", [], penstock.InvalidArgument, "no queue is named.*for all of them"),
    ],
)
def test_a_reset_that_cannot_be(shop: Shop, place: Any, queues: Any, error: type[Exception], said: str) -> None:
    shop.send(0, "ann", "bob")
    shop.send(1, "cid")
    shop.begin(0, 0)
    with pytest.raises(error, match=said):
        shop.lake.reset_offsets("orders", "billing", place, queues=queues)
    assert [one.generation for one in shop.lake.describe_group("billing").queues] == [0, 1]


def test_a_reset_of_what_is_not_there(shop: Shop) -> None:
    with pytest.raises(penstock.GroupNotFound, match=r"no such consumer group.*audit"):
        shop.lake.reset_offsets("orders", "audit", "latest")
    with pytest.raises(penstock.TopicNotFound, match=r"no such topic.*events"):
        shop.lake.reset_offsets("events", "billing", "latest")
    with pytest.raises(penstock.InvalidArgument, match=r"has not begun on this topic.*reset all queues"):
        shop.lake.reset_offsets("orders", "billing", "latest", queues=[0])


# --- Parked, released, skipped ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stuck(shop: Shop) -> Shop:
    """Three message groups are parked, two of them in queue 0."""
    shop.send(0, "ann", "bob", "ann", "bob")
    publish(shop.store, shop.runtime)
    shop.send(0, "dan")
    shop.send(1, "cid")
    shop.begin(0, 0)
    listed = OffsetSet.of([(0, 5)])

    def park(*markers: Marker) -> Callable[[QueueCell], QueueCell]:
        return lambda cell: replace(
            cell.taken_by("w/1").with_listed(listed), markers={100 + marker.head: marker for marker in markers}
        )

    shop.change(0, park(parked(1), parked(4, attempts=20), Marker(0, 1, Tries(State.WAITING, 3, 3))))
    shop.change(1, park(parked(0)))
    return shop


def test_parked_groups_are_listed_with_the_message_that_each_stands_at(stuck: Shop) -> None:
    found = stuck.lake.parked("billing")
    assert [(one.topic, one.queue, one.offset, one.message_group) for one in found] == [
        ("orders", 0, 1, "bob"),
        ("orders", 0, 4, "dan"),
        ("orders", 1, 0, "cid"),
    ]
    assert [one.message_id for one in found] == [stuck.sent[0][1], stuck.sent[0][4], stuck.sent[1][0]]
    assert [(one.attempts, one.strikes, one.tag) for one in found] == [(17, 17, "t"), (20, 20, "t"), (17, 17, "t")]
    assert found[0].stored is not None
    assert [one.message_group for one in stuck.lake.parked("billing", queue=0)] == ["bob", "dan"]
    assert [one.message_group for one in stuck.lake.parked("billing", message_group="cid")] == ["cid"]
    assert stuck.lake.parked("billing", topic="orders", queue=1, message_group="ann") == []


def test_a_parked_message_that_retention_took_is_listed_all_the_same(stuck: Shop) -> None:
    stuck.lake.alter_topic("orders", retention=timedelta(hours=1))
    stuck.clock.advance(hours=2)
    stuck.send(0, "new")
    asyncio.run(_upkeep(stuck))
    first, *others = stuck.lake.parked("billing")
    assert (first.queue, first.offset, first.message_id, first.message_group) == (0, 1, None, None)
    assert len(others) == 2
    stuck.lake.release("billing")
    assert stuck.lake.parked("billing") == []


def test_releasing_and_skipping_is_one_write_that_the_owners_carry_out(stuck: Shop) -> None:
    assert [one.message_group for one in stuck.lake.release("billing", message_group="bob")] == ["bob"]
    assert [one.message_group for one in stuck.lake.parked("billing")] == ["dan", "cid"]
    cell = stuck.change(0)
    assert cell.markers[101].tries == Tries(State.WAITING, 17)
    assert cell.markers[104].tries.state is State.PARKED
    assert [one.message_group for one in stuck.lake.skip("billing")] == ["dan", "cid"]
    assert stuck.lake.parked("billing") == []
    counted = {one.queue: (one.parked, one.blocked, one.dead_letters) for one in stuck.lake.describe_group("billing").queues}
    assert counted == {0: (0, 3, 1), 1: (0, 1, 1)}
    cells = [stuck.change(queue) for queue in (0, 1)]
    assert [cell.dead_letters.sequences() for cell in cells] == [[(4, 0)], [(0, 0)]]
    assert [cell.commands for cell in cells] == [2, 3]
    assert stuck.lake.release("billing") == []


@pytest.mark.parametrize("order", ["release", "skip"])
@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"message_group": "ann"}, "the message group is not parked.*billing.*ann.*group parked"),
        ({"topic": "events"}, "has not begun on this topic.*expected: orders; observed: events"),
        ({"queue": 2}, "no such queue.*expected: 0 to 1; observed: 2"),
        ({"queue": "0"}, "no such queue"),
    ],
)
def test_what_cannot_be_released_or_skipped(stuck: Shop, order: str, chosen: dict[str, Any], said: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=said):
        getattr(stuck.lake, order)("billing", **chosen)
    assert len(stuck.lake.parked("billing")) == 3


def test_a_reset_after_a_skip_makes_it_void(stuck: Shop) -> None:
    stuck.lake.skip("billing", queue=0)
    stuck.lake.reset_offsets("orders", "billing", "earliest", queues=[0])
    cell = stuck.change(0)
    assert (cell.settled.floor, cell.markers, cell.dead_letters.assigned) == (0, {}, ())
    assert len(stuck.lake.parked("billing")) == 1
