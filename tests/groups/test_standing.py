"""How far a group is, and what holds it up, as its cells say."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from penstock.coordinator.queues.cell import MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from tests.cells import blocked, failed, parked
from tests.groups.conftest import MINUTE, Shop
from tests.log.test_reader import publish


def test_a_description_counts_what_is_in_the_cells(shop: Shop) -> None:
    shop.send(0, *["ann"] * 3)
    shop.send(0, *["bob"] * 9)
    shop.send(1, "cid")
    shop.clock.advance(seconds=60)
    shop.begin(0, 0)

    def worked(cell: QueueCell) -> QueueCell:
        cell = cell.taken_by("w/1").with_granted(OffsetSet.of([(0, 10)])).with_settled(OffsetSet.of([(0, 2), (4, 5)]))
        cell = blocked(failed(cell, 2, due_ms=5), 77, 3, due_ms=9, behind=OffsetSet.of([(5, 6)]))
        cell = cell.with_tries(6, Tries(MessageState.OUT, 1)).with_tries(7, Tries(MessageState.SUSPECT, 2)).with_dead_letters((8,))
        return replace(cell, markers={**cell.markers, 78: parked(5)})

    shop.change(0, worked)
    found = shop.lake.describe_group("billing")
    queue = found.queues[0]
    assert (queue.topic, queue.queue, queue.owner, queue.epoch, queue.generation) == ("orders", 0, "w/1", 1, 0)
    assert (queue.committed_offset, queue.next_offset) == (9, 12)
    # 9 granted, 10 and 11 fresh, 2 waiting, 6 out, 7 suspect, 3 blocked, 5 parked
    assert queue.lag == 8
    assert (queue.in_flight, queue.waiting, queue.blocked, queue.parked) == (2, 1, 1, 1)
    assert (queue.interrupted, queue.dead_letters) == (1, 1)
    assert queue.lag_time == 3 * MINUTE, "of message 2"
    other = found.queues[1]
    assert (other.owner, other.epoch, other.committed_offset, other.next_offset, other.lag, other.lag_time) == (
        "",
        0,
        0,
        1,
        1,
        MINUTE,
    )
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
    shop.maintain()
    found = shop.lake.describe_group("billing").queues[0]
    assert (found.committed_offset, found.next_offset, found.lag) == (0, 3, 1)


def test_a_topic_that_is_gone_stays_in_the_description(shop: Shop) -> None:
    shop.send(0, "ann")
    shop.begin(0, 0)
    shop.lake.delete_topic("orders")
    found = shop.lake.describe_group("billing").queues
    assert [(one.next_offset, one.lag) for one in found] == [(None, 0), (None, 0)]
    shop.lake.create_topic("orders", message_type="FIFO", queues=3)
    shop.send(2, "ann")
    found = shop.lake.describe_group("billing").queues
    assert [(one.committed_offset, one.next_offset, one.lag, one.generation) for one in found] == [
        (0, 0, 0, 2),
        (0, 0, 0, 2),
        (0, 1, 1, 2),
    ]
