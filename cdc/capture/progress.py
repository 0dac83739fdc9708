"""How far a capture is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """How far a capture is."""

    snapshot_rows: int
    events: int
    """The number of changes that this process sent."""
    duplicates: int
    """The number of changes that came again, and were left out."""


@dataclass(frozen=True, slots=True)
class SourceProgress(CaptureProgress):
    """How far a capture is whose place in the source's log is kept in the lake."""

    position: str | None
    """The place in the source's log before which everything is in the topic."""


class ProgressListener(Protocol):
    """Is told of progress since the last time."""

    def __call__(self, *, events: int, duplicates: int, position: str | None) -> None: ...


class SentCounts(Protocol):
    """What an outbox has counted."""

    events: int
    duplicates: int


class ProgressReporter:
    """Tells a listener what an outbox has counted since the last time."""

    def __init__(self, outbox: SentCounts, tell: ProgressListener) -> None:
        self._outbox, self._tell, self._before = outbox, tell, (0, 0)

    def report(self, position: str | None) -> None:
        """Tell it. ``position``: the place in the source's log before which everything is in the topic."""
        (events, duplicates), self._before = self._before, (self._outbox.events, self._outbox.duplicates)
        self._tell(events=self._outbox.events - events, duplicates=self._outbox.duplicates - duplicates, position=position)
