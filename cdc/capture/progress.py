"""The progress of captures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """The progress of a capture."""

    snapshot_rows: int
    events: int
    """Changes sent by this process."""
    duplicates: int
    """Changes that came again, and were left out."""


@dataclass(frozen=True, slots=True)
class SourceProgress(CaptureProgress):
    """The progress of a capture that keeps its place in the lake."""

    position: str | None


class ProgressListener(Protocol):
    """Called with new progress."""

    def __call__(self, *, events: int, duplicates: int, position: str | None) -> None: ...


class SentCounts(Protocol):
    """The counts of an outbox."""

    events: int
    duplicates: int


class ProgressReporter:
    """Reports an outbox's new counts to a listener."""

    def __init__(self, outbox: SentCounts, tell: ProgressListener) -> None:
        self._outbox, self._tell, self._before = outbox, tell, (0, 0)

    def report(self, position: str | None) -> None:
        (events, duplicates), self._before = self._before, (self._outbox.events, self._outbox.duplicates)
        self._tell(events=self._outbox.events - events, duplicates=self._outbox.duplicates - duplicates, position=position)
