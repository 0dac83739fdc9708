"""The options of captures of any database."""

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
    """The options of all captures."""

    snapshot: Literal["initial", "never", "again"] = "initial"
    """The tables read first: new ones, none, or all once more."""
    once: bool = False
    """End once all changes committed before its start are in the topic."""
    heartbeat: bool = False
    """Send a message where no change marks a place at which the topic equals the source, for a sync's cuts: after a snapshot or
    a restart.
    """
    patience: DurationField = field_default(timedelta(minutes=5))
    """The longest wait for a database that does not answer, or a connector that stops."""

    def __post_init__(self) -> None:
        set_durations(self, "patience", most=WAIT_MAX, operation="capture")

    @property
    def patience_s(self) -> float:
        return self.patience.total_seconds()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCaptureOptions(CaptureOptions):
    """The options of captures that keep their place in the lake."""

    kind: ClassVar[str]

    name: str = "penstock"
    """The name of the capture, its producers and state; Debezium's topic prefix."""

    def __post_init__(self) -> None:
        CaptureOptions.__post_init__(self)
        check_name(self.name, "bad name of a capture")

    @property
    def producer_name(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def rows_producer_name(self) -> str:
        return f"{self.kind}/{self.name}/rows"


def check_name(name: str, message: str) -> None:
    """Raise `InvalidArgument` unless a name fits a capture and a replication slot."""
    if not name or not _NAME_CHARS.issuperset(name) or len(name) > _NAME_CHARS_MAX:
        raise InvalidArgument(message, operation="capture", object=name, expected=f"at most {_NAME_CHARS_MAX} of a-z, 0-9 and _")
