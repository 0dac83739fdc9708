"""What a queue that a topic got later waits for, by the cells of its former queues."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.coordinator.groups.record import Position
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.coordinator.registry import former_work as works
from penstock.coordinator.registry.former_work import NOTHING, FormerWork
from penstock.log.format.growth import Growth, former_queues

TWICE = (Growth(5, 2, (10, 0)), Growth(9, 3, (12, 3, 4, 5)))
"""From 2 to 4 to 8 queues."""
POSITION = Position((0,) * 8, (1, 1, 2, 2, 3, 3, 3, 3))
BLOCKED = Tries(MessageState.WAITING)


def cell(floor: int, generation: int = 1, **more: object) -> QueueCell:
    return replace(QueueCell(generation=generation, settled=SettledOffsets(floor)), **more)


def left(queue: int, cells: dict[int, QueueCell]) -> FormerWork:
    return works.former_work(former_queues(TWICE, queue), POSITION, cells)


def test_a_queue_of_the_beginning_waits_for_nothing() -> None:
    assert left(1, {}) == NOTHING


def test_a_queue_waits_until_the_floor_has_passed_the_mark() -> None:
    assert left(2, {0: cell(9)}) == FormerWork(0)
    assert left(2, {0: cell(10)}) == NOTHING
    assert left(2, {0: cell(9, granted=OffsetSet.of([(9, 14)]))}) == FormerWork(0)


def test_a_former_queue_without_messages_is_passed_and_the_one_before_it_is_not() -> None:
    assert left(3, {}) == NOTHING
    assert left(7, {3: cell(5, 2)}) == NOTHING
    assert left(6, {2: cell(4, 2), 0: cell(9)}) == FormerWork(0)
    assert left(6, {2: cell(3, 2), 0: cell(10)}) == FormerWork(2)
    assert left(6, {2: cell(4, 2), 0: cell(10)}) == NOTHING


def test_another_generation_than_the_record_s_says_nothing() -> None:
    assert left(2, {0: cell(10, 0)}) == FormerWork(0)
    assert left(2, {0: cell(10, 2)}) == FormerWork(0)


def test_a_message_that_is_tracked_by_itself_holds_all_up_below_the_mark() -> None:
    assert left(2, {0: cell(20, tries={9: BLOCKED})}) == FormerWork(0)
    assert left(2, {0: cell(20, tries={10: BLOCKED})}) == NOTHING


def test_message_groups_that_are_blocked_below_the_mark_wait_by_name() -> None:
    markers = {7: Marker(9, 10, BLOCKED), 8: Marker(10, 11, BLOCKED), 0: Marker(3, 4, BLOCKED)}
    parked = {9: Marker(2, 3, Tries(MessageState.PARKED))}
    assert left(2, {0: cell(20, markers=markers)}) == FormerWork(None, {7: 0})
    found = left(6, {0: cell(20, markers=markers), 2: cell(4, 2, markers=parked)})
    assert found == FormerWork(None, {7: 0, 9: 2})
