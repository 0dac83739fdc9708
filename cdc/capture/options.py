"""What is captured, and how, whichever the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from ...log.errors import InvalidArgument
from ...log.limits import WAIT_MAX, DurationField, field_default, set_durations

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_NAME_CHARS_MAX = 63


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureOptions:
    """What all captures take."""

    snapshot: Literal["initial", "never", "again"] = "initial"
    """The tables whose rows are read first: those that are new to the capture, none, or all once more."""
    once: bool = False
    """End once all changes that were committed when it began to follow are in the topic."""
    heartbeat: bool = False
    """Send a message of its own where no change tells that the topic equals the source, for the cuts of a sync: behind a snapshot or a restart."""
    patience: DurationField = field_default(timedelta(minutes=5))
    """How long to wait for a database that does not answer, or a connector that stops."""

    def __post_init__(self) -> None:
        set_durations(self, "patience", most=WAIT_MAX, operation="capture")

    @property
    def patience_s(self) -> float:
        """The patience in seconds."""
        return self.patience.total_seconds()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCaptureOptions(CaptureOptions):
    """What captures take whose place in the source's log is kept in the lake."""

    kind: ClassVar[str]
    """What stands before the slash in the names of its producers."""

    name: str = "penstock"
    """The name of the capture: of its producers, its state, and Debezium's topic prefix."""

    def __post_init__(self) -> None:
        CaptureOptions.__post_init__(self)
        check_name(self.name, "bad name of a capture")

    @property
    def producer_name(self) -> str:
        """The name under which changes are sent."""
        return f"{self.kind}/{self.name}"

    @property
    def rows_producer_name(self) -> str:
        """The name under which rows that a snapshot has read are sent."""
        return f"{self.kind}/{self.name}/rows"


def check_name(name: str, message: str) -> None:
    """Raise `InvalidArgument` unless a name can be that of a capture and of a replication slot."""
    if not name or not _NAME_CHARS.issuperset(name) or len(name) > _NAME_CHARS_MAX:
        raise InvalidArgument(message, operation="capture", object=name, expected=f"at most {_NAME_CHARS_MAX} of a-z, 0-9 and _")
