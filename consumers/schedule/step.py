"""One step of a queue: a write of its cell, and the runs after it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct, field

from ...coordinator.queues.cell import Marker, QueueCell, Tries
from ...coordinator.queues.offsets import OffsetSet
from ...log.message.message import MessageView
from .lanes import LaneRun

ENDED_ITS_PROCESS = "its process died each time it ran alone"


@dataclass(frozen=True, slots=True)
class GivenUpMessage:
    """A message that was given up."""

    message: MessageView
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed."""

    message: MessageView
    reason: str
    due_ms: int | None
    """None: the message was given up."""
    batch: int = 1
    """The number of messages delivered together, if the failed one is unknown."""
    error: str = "NoResult"
    """The class of what was raised, or a word for another end."""


class Step(Struct, eq=False):
    """Collected by the schedule, written by the processor."""

    settled: list[int] = field(default_factory=list)
    filtered: OffsetSet = OffsetSet()
    """Fresh messages that are not the group's."""
    granted: list[int] = field(default_factory=list)
    listed: list[int] = field(default_factory=list)
    """Fresh messages of blocked groups."""
    given_back: list[int] = field(default_factory=list)
    """Granted messages that are fresh again."""
    tries: dict[int, Tries] = field(default_factory=dict)
    markers: dict[int, Marker | None] = field(default_factory=dict)
    """Markers by the group's hash; None: caught up."""
    behind: list[int] = field(default_factory=list)
    """Messages behind these markers from now on."""
    failed: list[FailedAttempt] = field(default_factory=list)
    letters: list[GivenUpMessage] = field(default_factory=list)
    parked: list[MessageView] = field(default_factory=list)
    runs: list[LaneRun] = field(default_factory=list)
    runs_now: list[LaneRun] = field(default_factory=list)
    """Runs that are durable already."""
    taken_back: int = 0
    """Messages taken back from runs under way."""
    solo: bool = False
    """Whether nothing else of this process may be in flight."""

    @property
    def is_empty(self) -> bool:
        return not (
            self.settled
            or self.filtered
            or self.granted
            or self.listed
            or self.given_back
            or self.tries
            or self.markers
            or self.letters
        )

    def apply(self, cell: QueueCell) -> QueueCell:
        if self.settled:
            cell = cell.with_settled(OffsetSet.of_offsets(self.settled))
        if self.filtered:
            cell = cell.with_settled(self.filtered)
        if self.markers:
            cell = cell.with_markers(self.markers, OffsetSet.of_offsets(self.behind))
        if self.letters:
            cell = cell.with_dead_letters([letter.message.offset for letter in self.letters])
        if self.tries:
            cell = cell.with_all_tries(self.tries)
        if self.given_back:
            cell = cell.with_ungranted(OffsetSet.of_offsets(self.given_back))
        if self.granted:
            cell = cell.with_granted(OffsetSet.of_offsets(self.granted))
        if self.listed:
            cell = cell.with_listed(OffsetSet.of_offsets(self.listed))
        return cell
