"""Judges the order of message groups across the queues of a topic that grew (C15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from penstock.coordinator.queues.cell import MessageState, QueueCell
from penstock.log.format.growth import Growth, former_queues
from tests.simulation.consumers.books import Queue
from tests.simulation.consumers.records import History, Line
from tests.simulation.consumers.standing import Where

NO_GROUP = 0
"""The hash of messages without a message group."""


def is_parked_before(growths: Sequence[Growth], cell_of: Callable[[int], QueueCell | None], queue: int, lane: int) -> bool:
    """Whether the message group with this hash is parked in a former queue of ``queue``, so that its messages here wait."""
    for other, mark in former_queues(growths, queue):
        cell = cell_of(other)
        marker = None if cell is None else cell.markers.get(lane)
        if marker is not None and marker.head < mark and marker.tries.state is MessageState.PARKED:
            return True
    return False


def judge_former(
    history: History, queue_of: Callable[[Line], Queue], counts: Counter[str], queue: Queue, offset: int, generation: int
) -> Iterator[str]:
    """What is wrong with a start at this offset. Earlier messages of its group, in the former queues, are done in the generation that is the start's.

    Once a former queue was reset after that generation began, the start's owner may not know it yet, or no one has asked it to wait.
    """
    lane = queue.places.get(offset, NO_GROUP)
    if lane == NO_GROUP:
        return
    group, topic, number = queue.line
    for other, mark in former_queues(history.growths, number):
        former = queue_of((group, topic, other))
        earlier = [one for one in former.lanes.get(lane, ()) if one < mark]
        counts["start: behind a former queue"] += bool(earlier)
        ordered = max((one for one in former.positions if one <= generation), default=0)
        position, cell = former.positions.get(ordered, 0), former.cell
        if cell is not None and cell.generation > generation:
            continue
        if cell is not None and cell.generation == ordered:
            left = [one for one in earlier if former.stands[one].where is not Where.DONE]
            counts["start: beside what is blocked in a former queue"] += any(one.head < mark for one in cell.markers.values())
        else:
            left = [one for one in earlier if one >= position]
        if left:
            yield f"queue {other} has offsets {left[:5]} of its message group, below mark {mark}: {former.stands.get(left[0])}"
