"""Groups' records in a table: made once, agreed on, begun by one for all, and changed by operators in one write each."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from penstock.coordinator.cells.agreement import TableAgreement
from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.cells.table_record import OwnTable
from penstock.coordinator.groups.record import (
    CommandKind,
    DeliveryOrder,
    GroupExists,
    GroupNotFound,
    GroupSettings,
    Position,
)
from penstock.coordinator.groups.retry import RetryPolicy, RetrySchedule
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.queues.commands import caught_up
from penstock.coordinator.registry.groups import GroupRegistry
from penstock.coordinator.tables import CellTable, CellVersion, MemoryTable, TableMismatch
from penstock.log.errors import DataDamaged, InvalidArgument, LimitExceeded, StoreUnavailable, TopicDeleted
from penstock.log.runtime.runtime import Runtime
from tests.coordinator.test_cells import FaultyTable


def groups(table: CellTable, seed: int | None = None, *, lake: str | None = None) -> GroupRegistry:
    runtime = Runtime() if seed is None else Runtime(random=random.Random(seed))
    own = None if lake is None else TableAgreement(table, runtime, lake=lake, own=OwnTable(url=table.url))
    return GroupRegistry(Cells(table, runtime, agreement=own), runtime)


def run(main: Callable[[GroupRegistry], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main(groups(MemoryTable())))


def resolved(*offsets: int) -> Callable[[], Awaitable[tuple[int, ...]]]:
    async def resolve() -> tuple[int, ...]:
        return offsets

    return resolve


async def begun(found: GroupRegistry, *offsets: int, group: str = "billing") -> None:
    await found.ensure(group, {})
    await found.begin(group, "orders", 0, resolved(*offsets))


def test_a_group_is_made_once_and_listed() -> None:
    async def main(found: GroupRegistry) -> None:
        assert await found.read("billing") is None
        settings = GroupSettings(max_attempts=3, filters={"orders": "a||b"})
        assert (await found.create("billing", settings)).settings == settings
        await found.create("billing", GroupSettings(max_attempts=3, filters={"orders": "b || a", "events": "*"}))
        await found.create("audit", GroupSettings.of(DeliveryOrder.CONCURRENT))
        assert list(await found.all()) == ["audit", "billing"]
        with pytest.raises(GroupExists, match=r"exists with other settings.*billing.*expected.*17.*observed.*'3'"):
            await found.create("billing", GroupSettings(filters={"orders": "a || b"}))
        with pytest.raises(GroupExists, match=r"expected.*filter of orders': '\*'.*observed.*a\|\|b"):
            await found.create("billing", GroupSettings(max_attempts=3))

    run(main)


def test_each_group_that_is_made_has_a_secret_of_its_own() -> None:
    async def main(found: GroupRegistry) -> None:
        first = (await found.create("billing", GroupSettings())).secret
        assert len(bytes.fromhex(first)) == 16
        assert (await found.create("billing", GroupSettings())).secret == (await found.ensure("billing", {})).secret == first
        assert (await found.ensure("audit", {})).secret != first
        await found.delete("billing")
        assert (await found.ensure("billing", {})).secret not in ("", first), "it was made again"
        assert first not in repr(await found.get("billing"))

    run(main)


def test_a_group_that_is_not_there_is_told() -> None:
    async def main(found: GroupRegistry) -> None:
        for call in (
            lambda: found.get("billing"),
            lambda: found.update("billing", lambda record: record),
            lambda: found.delete("billing"),
            lambda: found.begin("billing", "orders", 0, resolved(0)),
            lambda: found.reset("billing", "orders", 0, 1, {0: 0}),
            lambda: found.command("billing", CommandKind.SKIP, {("orders", 0): {1: 17}}),
        ):
            with pytest.raises(GroupNotFound, match=r"no such consumer group.*billing.*penstock group create"):
                await call()
        with pytest.raises(InvalidArgument, match="bad consumer group name"):
            await found.ensure("a\nb", {})

    run(main)


def test_a_consumer_makes_its_group_with_what_it_states() -> None:
    async def main(found: GroupRegistry) -> None:
        record = await found.ensure("billing", {"delivery_order": "CONCURRENT", "max_attempts": None})
        assert record.settings == GroupSettings(
            delivery_order=DeliveryOrder.CONCURRENT, max_attempts=None, retry=RetryPolicy(schedule=RetrySchedule.ROCKETMQ)
        )
        assert await found.ensure("billing", {"max_attempts": None}) == record
        assert await found.ensure("billing", {}) == record
        with pytest.raises(InvalidArgument, match=r"another delivery order.*expected.*CONCURRENT.*observed.*ORDERLY"):
            await found.ensure("billing", {"delivery_order": "ORDERLY"})
        with pytest.raises(InvalidArgument, match="has no colour"):
            await found.ensure("audit", {"colour": "red"})
        assert await found.read("audit") is None

    run(main)


def test_a_topic_s_filter_is_stated_by_who_consumes_it_first_and_stays() -> None:
    async def main(found: GroupRegistry) -> None:
        await found.ensure("billing", {"filters": {"orders": "paid"}})
        await found.begin("billing", "orders", 0, resolved(0))
        record = await found.ensure("billing", {"filters": {"events": "a"}})
        assert record.settings.filters == {"orders": "paid", "events": "a"}
        with pytest.raises(InvalidArgument, match=r"another filter of orders.*expected.*paid.*observed.*late"):
            await found.ensure("billing", {"filters": {"orders": "late"}})
        await found.begin("billing", "all", 0, resolved(0))
        with pytest.raises(InvalidArgument, match=r"another filter of all.*expected.*\*.*observed.*some"):
            await found.ensure("billing", {"filters": {"all": "some"}})

    run(main)


def test_latest_is_resolved_once_however_many_begin() -> None:
    async def main(found: GroupRegistry) -> None:
        await found.ensure("billing", {})
        arrived = 0
        together = asyncio.Barrier(5)

        async def latest() -> tuple[int, ...]:
            nonlocal arrived
            arrived += 1
            mine = arrived
            await together.wait()  # everybody has looked, and each saw another end
            return (mine, mine)

        records = await asyncio.gather(*(found.begin("billing", "orders", 0, latest) for _ in range(5)))
        positions = {record.positions["orders"] for record in records}
        assert len(positions) == 1
        assert await found.begin("billing", "orders", 0, resolved(99, 99)) == records[0]
        assert records[0].positions["orders"].generations == (0, 0)

    run(main)


def test_a_topic_made_again_begins_at_its_first_message_in_a_new_generation() -> None:
    async def main(found: GroupRegistry) -> None:
        await begun(found, 7, 8)
        record = await found.begin("billing", "orders", 40, resolved(3, 3, 3))
        assert record.positions["orders"] == Position((0, 0, 0), (1, 1, 1), 40, since=1)
        lates: list[Callable[[], Awaitable[object]]] = [
            lambda: found.begin("billing", "orders", 0, resolved(0, 0)),
            lambda: found.reset("billing", "orders", 0, 2, {0: 0, 1: 0}),
        ]
        for late in lates:
            with pytest.raises(TopicDeleted, match=r"created again.*orders.*entry 40.*entry 0"):
                await late()

    run(main)


def test_a_reset_moves_all_queues_or_some() -> None:
    async def main(found: GroupRegistry) -> None:
        await begun(found, 7, 8, 9)
        await found.reset("billing", "orders", 0, 3, {0: 1, 1: 2, 2: 3})
        record = await found.reset("billing", "orders", 0, 3, {1: 5})
        assert record.positions["orders"] == Position((1, 5, 3), (1, 2, 1))
        record = await found.reset("billing", "events", 4, 2, {0: 1, 1: 2})
        assert record.positions["events"] == Position((1, 2), (3, 3), 4, since=3)
        with pytest.raises(InvalidArgument, match=r"has not begun on this topic.*billing, new.*reset all queues"):
            await found.reset("billing", "new", 4, 2, {1: 2})

    run(main)


def test_a_group_made_again_shares_no_generation_with_the_deleted_one() -> None:
    async def main(found: GroupRegistry) -> None:
        await begun(found, 7)
        before = await found.command("billing", CommandKind.SKIP, {("orders", 0): {3: 17}})
        left = caught_up(QueueCell(), before, "orders", 0)
        await found.delete("billing")
        assert await found.read("billing") is None
        assert await found.all() == {}
        record = await found.create("billing", GroupSettings(max_attempts=1))
        assert (record.settings.max_attempts, record.positions) == (1, {})
        record = await found.begin("billing", "orders", 0, resolved(5))
        cell = caught_up(left, record, "orders", 0)
        assert (cell.generation, cell.settled.floor, cell.commands) == (1, 5, 1)
        assert (await found.command("billing", CommandKind.SKIP, {("orders", 0): {6: 17}})).commands[0].number == 2

    run(main)


class LostAnswer(MemoryTable):
    """The answer of the next write is lost, and somebody else is quicker than the question what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.then: list[Callable[[], Awaitable[object]]] = []

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        version = await super().put(key, data, expected=expected)
        if not self.then:
            return version
        others, self.then = self.then, []
        for other in others:
            await other()
        raise StoreUnavailable("no answer", operation="put")


async def test_a_deletion_whose_answer_is_lost_spares_the_group_that_was_made_since() -> None:
    table = LostAnswer()
    found, other = groups(table), groups(table)
    await begun(found, 7)
    table.then = [lambda: other.create("billing", GroupSettings(max_attempts=1))]
    await found.delete("billing")
    assert (await found.get("billing")).settings.max_attempts == 1


async def test_an_order_to_a_group_is_none_to_the_one_made_after_it() -> None:
    table = LostAnswer()
    found, other = groups(table), groups(table)
    await begun(found, 7)
    table.then = [lambda: other.delete("billing"), lambda: begun(other, 9)]
    with pytest.raises(GroupNotFound, match="no such consumer group"):
        await found.reset("billing", "orders", 0, 1, {0: 3})
    assert (await found.get("billing")).positions["orders"].offsets == (9,)


async def test_an_operator_writes_once_however_many_queues_are_meant() -> None:
    table = MemoryTable()
    found = groups(table)
    await begun(found, *range(16))
    for order in (
        lambda: found.reset("billing", "orders", 0, 16, dict.fromkeys(range(16), 3)),
        lambda: found.command("billing", CommandKind.SKIP, {("orders", queue): {5: 17, 6: 17} for queue in range(16)}),
        lambda: found.command("billing", CommandKind.RELEASE, {("orders", queue): {7: 17} for queue in range(16)}),
        lambda: found.delete("billing"),
    ):
        writes = table._writes
        await order()
        assert table._writes == writes + 1
    assert await table.keys("") == ["groups/billing"]


async def test_commands_that_were_carried_out_leave_the_record_with_the_next_one() -> None:
    table = MemoryTable()
    found, cells = groups(table), Cells(table, Runtime())
    await begun(found, 0, 0)
    await found.command("billing", CommandKind.RELEASE, {("orders", 0): {3: 17, 1: 17}, ("orders", 1): {4: 17}})
    parked = {7: Marker(3, 4, Tries(MessageState.PARKED, 17, 17))}
    record = await found.get("billing")
    cell = caught_up(QueueCell(markers=parked), record, "orders", 0)
    assert cell.markers[7].tries.state is MessageState.WAITING
    await cells.write(queue_key("billing", "orders", 0), encode_cell(cell), on=None, deadline_s=9e9)
    record = await found.command("billing", CommandKind.SKIP, {("orders", 0): {9: 17}})
    assert [(one.number, one.kind.value, one.queue, one.heads) for one in record.commands] == [
        (2, "release", 1, (4,)),
        (3, "skip", 0, (9,)),
    ]


def test_operators_orders_are_carried_out_once_each_whatever_the_table_does() -> None:
    met: Counter[str] = Counter()

    async def main(seed: int) -> None:
        table = FaultyTable(random.Random(seed), 0.3)

        async def patiently(call: Callable[[], Awaitable[object]]) -> None:
            while True:
                try:
                    await call()
                except StoreUnavailable:  # of the first read: nothing was done
                    continue
                return

        await patiently(lambda: groups(table, -seed - 1).create("billing", GroupSettings()))
        await patiently(lambda: groups(table, -seed - 100).begin("billing", "orders", 0, resolved(0, 0, 0)))

        async def operator(number: int) -> None:
            found = groups(table, 100 * seed + number)
            for step in range(3):
                offset = 10 * number + step
                parked = {("orders", number): {offset: 17}}
                await patiently(lambda parked=parked: found.command("billing", CommandKind.SKIP, parked))  # type: ignore[misc]

        async def backtracker() -> None:
            found = groups(table, 100 * seed)
            for step in range(1, 4):
                await patiently(lambda step=step: found.reset("billing", "orders", 0, 3, {0: step}))  # type: ignore[misc]

        await asyncio.gather(operator(1), operator(2), backtracker())
        await asyncio.gather(*table.late)
        table._rate = 0
        record = await groups(table).get("billing")
        assert [(one.queue, one.heads) for one in sorted(record.commands, key=lambda one: one.heads)] == [
            (queue, (10 * queue + step,)) for queue in (1, 2) for step in range(3)
        ]
        assert [one.number for one in record.commands] == list(range(1, 7))
        assert record.commanded == 6
        assert record.generations == 4
        assert record.positions["orders"] == Position((3, 0, 0), (3, 0, 0))
        met.update(table.met)

    for seed in range(25):
        asyncio.run(main(seed))
    assert not {fault for fault in ("lost request", "lost answer", "repeated", "late", "undecided") if not met[fault]}


async def test_a_table_shared_by_two_lakes_is_told() -> None:
    table = MemoryTable()
    mine, other = (groups(table, lake=f"s3://bucket/{name}/?region=eu") for name in ("mine", "other"))
    assert await other.read("billing") is None  # nobody's yet
    await mine.create("billing", GroupSettings())
    assert await groups(table, lake="s3://bucket/mine?endpoint=http://here").read("billing") is not None
    for call in (
        lambda: other.read("billing"),
        other.all,
        lambda: other.create("audit", GroupSettings()),
        lambda: other.ensure("audit", {}),
        lambda: other.delete("billing"),
    ):
        with pytest.raises(TableMismatch, match=r"another lake's.*expected: s3://bucket/other; observed: s3://bucket/mine.*prefix"):
            await call()
    assert await table.keys("groups/") == ["groups/billing"]
    await groups(table).read("billing")  # the lake's own table names nobody


def test_of_two_lakes_that_claim_a_table_at_once_one_gets_it() -> None:
    async def main(seed: int) -> bool:
        table = FaultyTable(random.Random(seed), 0.0)
        both = [groups(table, seed + place, lake=f"s3://bucket/{place}") for place in range(2)]
        ends = await asyncio.gather(*(one.ensure("billing", {}) for one in both), return_exceptions=True)
        (refused,) = [end for end in ends if isinstance(end, BaseException)]
        assert isinstance(refused, TableMismatch)
        return ends[0] is refused

    assert {asyncio.run(main(seed)) for seed in range(20)} == {True, False}


async def test_a_cell_of_the_lake_that_is_no_such_thing_is_named() -> None:
    table = MemoryTable()
    await Cells(table, Runtime()).write("lake", b"[]", on=None, deadline_s=9e9)
    with pytest.raises(DataDamaged, match=r"not the name of a lake.*lake"):
        await groups(table, lake="s3://bucket/mine").read("billing")


async def test_a_record_full_of_orders_takes_no_more_of_them_and_lets_consumers_join_who_carry_them_out() -> None:
    table = MemoryTable()
    found, cells = groups(table), Cells(table, Runtime())
    await begun(found, 0, 0)
    heads = dict.fromkeys(range(0, 2**21, 256), 17)
    await found.command("billing", CommandKind.SKIP, {("orders", 0): heads})
    with pytest.raises(LimitExceeded, match="no room for more orders"):
        await found.command("billing", CommandKind.SKIP, {("orders", 0): heads})
    for number in range(100):
        await found.update("billing", lambda record, n=number: record.joined_by(f"{n:032x}/1"))  # type: ignore[misc]
    cell = caught_up(QueueCell(), await found.get("billing"), "orders", 0)
    await cells.write(queue_key("billing", "orders", 0), encode_cell(cell), on=None, deadline_s=9e9)
    await found.command("billing", CommandKind.SKIP, {("orders", 0): heads})
