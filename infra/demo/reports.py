"""What the demo's processes are told and report: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ...log.stores import StoreStatistics, VerbStatistics
from .crash import Unheard


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one producer process is to do."""

    lake: str
    topic: str
    events: str
    """Path of the capture."""
    producers: int
    producer: int
    """Which of them it is, from 0."""
    events_per_s: float = 0.0
    """As fast as that, at most; 0: as it can."""

    @property
    def name(self) -> str:
        """The producer's name, the same after a restart."""
        return f"producer-{self.producer + 1}"


@dataclass(frozen=True, slots=True)
class Ready:
    """It has read its share of the capture."""

    events: int


@dataclass(frozen=True, slots=True)
class Sent:
    """How far it is."""

    durable: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """It was told to stop where a batch is durable and not acknowledged, and has."""

    unheard: Unheard
    first: int
    """Sequence of the batch's first event."""
    acknowledged: int
    requests: StoreStatistics


@dataclass(frozen=True, slots=True)
class Done:
    """All of its share is durable."""

    already: int
    """Events that were when it was opened."""
    requests: StoreStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTask:
    """What the Spark driver is to do."""

    lake: str
    topic: str
    into: str
    """The folder of the target tables."""
    columns: Mapping[str, Mapping[str, str]]
    """Types of columns by table."""
    events_per_batch: int
    """At most."""
    s3: Mapping[str, Any] | None = None
    """The fields of `S3`."""
    halt_at: int | None = None
    """Stop between two commits once so many events are applied, and wait to be killed."""
    warm_up: bool = False
    """Before it says that it has begun."""


@dataclass(frozen=True, slots=True)
class Syncing:
    """The driver has begun."""


@dataclass(frozen=True, slots=True)
class Halted:
    """It stopped, as it was told, right behind a commit."""

    target: str
    batches: int
    """Applied as a whole before."""


@dataclass(frozen=True, slots=True)
class Synced:
    """All of the topic is in the targets, but for these tables."""

    stopped: list[str]


@dataclass(frozen=True, slots=True)
class Failed:
    """It gave up."""

    message: str


Report: TypeAlias = Ready | Sent | Stuck | Done | Syncing | Halted | Synced | Failed
_REPORTS: dict[str, type[Report]] = {kind.__name__: kind for kind in (Ready, Sent, Stuck, Done, Syncing, Halted, Synced, Failed)}


def encode_report(report: Report) -> str:
    """A line without its end."""
    return json.dumps({"report": type(report).__name__, **asdict(report)})


def decode_report(line: bytes) -> Report:
    """The inverse of `encode_report`."""
    values: dict[str, Any] = json.loads(line)
    kind = _REPORTS[values.pop("report")]
    if "requests" in values:
        values["requests"] = StoreStatistics(**{verb: VerbStatistics(**counts) for verb, counts in values["requests"].items()})
    if "unheard" in values:
        values["unheard"] = Unheard(**values["unheard"])
    return kind(**values)
