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
