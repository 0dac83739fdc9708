"""The tasks and reports of the demo's processes: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from penstock.log.stores import StoreStatistics, VerbStatistics

from .crash import Unheard


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The task of one producer process."""

    lake: str
    topic: str
    events: str
    """Path of the capture."""
    producers: int
    producer: int
    """The producer's number, from 0."""
    events_per_s: float = 0.0
    """The most events a second; 0: as fast as it can."""

    @property
    def name(self) -> str:
        """The producer's name, the same after a restart."""
        return f"producer-{self.producer + 1}"


@dataclass(frozen=True, slots=True)
class Ready:
    """The producer has read its share of the capture."""

    events: int


@dataclass(frozen=True, slots=True)
class Sent:
    """The producer's progress."""

    durable: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """The producer stopped, as it was told, where a batch is durable and not acknowledged."""

    unheard: Unheard
    first: int
    """Sequence of the batch's first event."""
    acknowledged: int
    requests: StoreStatistics


@dataclass(frozen=True, slots=True)
class Done:
    """All of the producer's share is durable."""

    already: int
    """The number of events that were durable when it was opened."""
    requests: StoreStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTask:
    """The task of the Spark driver."""

    lake: str
    topic: str
    into: str
    """The folder of the target tables."""
    columns: Mapping[str, Mapping[str, str]]
    """Types of columns by table."""
    events_per_batch: int
    """The most events of a batch."""
    s3: Mapping[str, Any] | None = None
    """The fields of `S3`."""
    halt_at: int | None = None
    """The number of applied events after which to stop between two commits, and wait to be killed."""
    warm_up: bool = False
    """Whether to warm up before it reports that it has begun."""


@dataclass(frozen=True, slots=True)
class Syncing:
    """The driver has begun."""


@dataclass(frozen=True, slots=True)
class Halted:
    """The driver stopped, as it was told, right behind a commit."""

    target: str
    batches: int
    """The number of batches applied as a whole before."""


@dataclass(frozen=True, slots=True)
class Synced:
    """All of the topic is in the targets, except for these tables."""

    stopped: list[str]


@dataclass(frozen=True, slots=True)
class Failed:
    """The process gave up."""

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
