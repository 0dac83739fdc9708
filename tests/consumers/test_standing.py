"""What operators see of a queue, from its cell and from what was read of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.consumers.queues.lag import MessageAges, QueueLag, queue_lag
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from tests.cells import blocked, failed


def test_a_fresh_queue_has_nothing_that_waits() -> None:
    assert queue_lag(QueueCell()) == QueueLag(0, 0, 0, 0)


def test_what_waits_is_blocked_and_is_parked() -> None:
    cell = QueueCell().with_granted(OffsetSet.of([(0, 10)]))
    cell = failed(cell, 3, due_ms=5)  # waits by itself
    cell = blocked(blocked(cell, 77, 4, due_ms=5), 78, 5, due_ms=5)
    cell = cell.with_marker(78, _with_state(cell, 78, MessageState.PARKED))
    cell = cell.with_tries(6, Tries(MessageState.RUNNING))
    assert queue_lag(cell) == QueueLag(waiting_messages=2, blocked_groups=1, parked_groups=1, first_unsettled=0)
    cell = cell.with_settled(OffsetSet.of([(0, 3), (7, 10)]))
    assert queue_lag(cell).first_unsettled == 3  # listed ones do not hold the floor, and are not settled


def _with_state(cell: QueueCell, group: int, state: MessageState) -> Marker:
    marker = cell.markers[group]
    return replace(marker, tries=replace(marker.tries, state=state))


@pytest.fixture
def ages() -> MessageAges:
    found = MessageAges()
    for offset, stored_ms in ((10, 1_000), (20, 2_000), (30, 3_000)):
        found.note(offset, stored_ms)
    return found


@pytest.mark.parametrize(("offset", "stored_ms"), [(10, 1_000), (19, 1_000), (20, 2_000), (31, 3_000), (99, 3_000), (5, 1_000)])
def test_a_message_is_as_old_as_its_batch(ages: MessageAges, offset: int, stored_ms: int) -> None:
    assert ages.time_ms(offset) == stored_ms


def test_nothing_read_nothing_known() -> None:
    assert MessageAges().time_ms(5) is None


def test_what_is_read_again_changes_nothing(ages: MessageAges) -> None:
    ages.note(20, 9_999)
    ages.note(30, 9_999)
    assert [ages.time_ms(offset) for offset in (20, 30)] == [2_000, 3_000]


def test_what_is_settled_is_forgotten_but_for_the_batch_that_holds_the_floor(ages: MessageAges) -> None:
    ages.forget(25)
    assert ages.time_ms(25) == 2_000
    assert ages.time_ms(10) == 2_000  # nobody asks
    ages.forget(5)
    assert ages.time_ms(30) == 3_000
