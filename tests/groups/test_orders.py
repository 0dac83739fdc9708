"""What operators order while consumers run: resets, and the release and skipping of parked message groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import penstock
from penstock.coordinator.groups.record import GroupRecord, GroupSettings
from penstock.coordinator.queues.cell import MessageState, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.registry.groups import GroupRegistry
from tests.cells import parked
from tests.groups.conftest import MINUTE, Shop
from tests.log.test_reader import publish


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
        assert shop.lake.reset_offsets("billing", "orders", place) == offsets
        found = shop.lake.describe_group("billing").queues
        assert {one.queue: one.committed_offset for one in found} == offsets
        assert {one.generation for one in found} == {generation}
    assert shop.lake.reset_offsets("billing", "orders", "latest", queues=[1]) == {1: 6}
    found = shop.lake.describe_group("billing").queues
    assert [(one.committed_offset, one.generation) for one in found] == [(6, 4), (6, 5)]


def test_a_reset_of_one_queue_leaves_what_others_have_done(shop: Shop) -> None:
    for queue in (0, 1):
        shop.send(queue, "ann", "bob")
    shop.begin(0, 0)
    done = OffsetSet.of([(0, 2)])
    for queue in (0, 1):
        shop.change(queue, lambda cell: cell.with_granted(done).with_settled(done))
    shop.lake.reset_offsets("billing", "orders", "earliest", queues=[0])
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
        shop.lake.reset_offsets("billing", "orders", place, queues=queues)
    assert [one.generation for one in shop.lake.describe_group("billing").queues] == [0, 1]


def test_a_reset_of_what_is_not_there(shop: Shop) -> None:
    with pytest.raises(penstock.GroupNotFound, match=r"no such consumer group.*audit"):
        shop.lake.reset_offsets("audit", "orders", "latest")
    with pytest.raises(
        penstock.GroupNotFound, match=r"object: orders.*the group is named before the topic, and billing is a group"
    ):
        shop.lake.reset_offsets("orders", "billing", "latest")
    with pytest.raises(penstock.GroupNotFound, match=r"object: audit.*create it with"):
        shop.lake.reset_offsets("audit", "no group's name!", "latest")
    with pytest.raises(penstock.TopicNotFound, match=r"no such topic.*events"):
        shop.lake.reset_offsets("billing", "events", "latest")
    with pytest.raises(penstock.InvalidArgument, match=r"has not begun on this topic.*reset all queues"):
        shop.lake.reset_offsets("billing", "orders", "latest", queues=[0])


# --- Parked, released, skipped ---------------------------------------------------------------------------------------------------------


def test_parked_groups_are_listed_with_the_message_that_each_stands_at(stuck: Shop) -> None:
    found = stuck.lake.parked("billing")
    assert [(one.topic, one.queue, one.offset, one.message_group) for one in found] == [
        ("orders", 0, 1, "bob"),
        ("orders", 0, 4, "dan"),
        ("orders", 1, 0, "cid"),
    ]
    assert [one.message_id for one in found] == [stuck.sent[0][1], stuck.sent[0][4], stuck.sent[1][0]]
    assert [(one.attempts, one.failed_attempts, one.tag) for one in found] == [(17, 17, "t"), (20, 20, "t"), (17, 17, "t")]
    assert found[0].stored is not None
    assert [one.message_group for one in stuck.lake.parked("billing", queue=0)] == ["bob", "dan"]
    assert [one.message_group for one in stuck.lake.parked("billing", message_group="cid")] == ["cid"]
    assert stuck.lake.parked("billing", topic="orders", queue=1, message_group="ann") == []


def test_a_parked_message_that_retention_took_is_listed_all_the_same(shop: Shop) -> None:
    shop.lake.alter_topic("orders", retention=timedelta(hours=1))
    shop.send(0, "ann", "bob")
    publish(shop.store, shop.runtime)
    shop.begin(0, 0)
    shop.clock.advance(hours=2)
    shop.send(0, "new")
    shop.maintain()  # what is parked already it would spare
    listed = OffsetSet.of([(0, 2)])
    shop.change(0, lambda cell: replace(cell.taken_by("w/1").with_listed(listed), markers={101: parked(1)}))
    (found,) = shop.lake.parked("billing")
    assert (found.queue, found.offset, found.message_id, found.message_group) == (0, 1, None, None)
    shop.lake.release("billing")
    assert shop.lake.parked("billing") == []


def test_a_parked_message_is_spared_by_retention(stuck: Shop) -> None:
    stuck.lake.alter_topic("orders", retention=timedelta(hours=1))
    stuck.clock.advance(hours=2)
    stuck.send(0, "new")
    stuck.maintain()
    first, *others = stuck.lake.parked("billing")
    assert (first.queue, first.offset, first.message_group, len(others)) == (0, 1, "bob", 2)


def test_releasing_and_skipping_is_one_write_that_the_owners_carry_out(stuck: Shop) -> None:
    assert [one.message_group for one in stuck.lake.release("billing", message_group="bob")] == ["bob"]
    assert [one.message_group for one in stuck.lake.parked("billing")] == ["dan", "cid"]
    cell = stuck.change(0)
    assert cell.markers[101].tries == Tries(MessageState.WAITING, 17)
    assert cell.markers[104].tries.state is MessageState.PARKED
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
        ({"topic": "events"}, "has not begun on this topic.*expected: orders; observed: 'events'"),
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
    stuck.lake.reset_offsets("billing", "orders", "earliest", queues=[0])
    cell = stuck.change(0)
    assert (cell.settled.floor, cell.markers, cell.dead_letters.assigned) == (0, {}, ())
    assert len(stuck.lake.parked("billing")) == 1


@pytest.mark.parametrize("order", ["release", "skip"])
def test_an_order_means_no_parking_that_came_after_a_reset_though_it_is_at_the_same_message(
    stuck: Shop, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked for before the reset, and is ordered after the message was parked anew."""
    command = GroupRegistry.command

    async def late(self: GroupRegistry, *which: Any, **how: Any) -> GroupRecord:
        monkeypatch.setattr(GroupRegistry, "command", command)
        life = (await self.get("billing")).positions["orders"].life
        await self.reset("billing", "orders", life, 2, {0: 0})
        return await command(self, *which, **how)

    before = stuck.lake.parked("billing", queue=0)[0]
    monkeypatch.setattr(GroupRegistry, "command", late)
    assert [one.queue for one in getattr(stuck.lake, order)("billing")] == [1]
    stuck.change(0, lambda cell: replace(cell.taken_by("w/1").with_listed(OffsetSet.of([(0, 5)])), markers={101: parked(1)}))
    assert before in stuck.lake.parked("billing")
    assert stuck.change(0).dead_letters.assigned == ()


def test_an_order_that_a_reset_made_void_says_so(stuck: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    command = GroupRegistry.command

    async def late(self: GroupRegistry, *which: Any, **how: Any) -> GroupRecord:
        await self.delete("billing")
        await self.create("billing", GroupSettings())
        return await command(self, *which, **how)

    monkeypatch.setattr(GroupRegistry, "command", late)
    with pytest.raises(penstock.InvalidArgument, match="the message group is not parked"):
        stuck.lake.skip("billing", message_group="bob")
