"""The actions and results of a run of the demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from penstock.cdc.delta.freshness import Freshness
from penstock.log.errors import PenstockError
from penstock.log.stores import StoreStatistics, VerbStatistics

from .checks.check_stream import StreamDifference
from .checks.compare import TableDifference


class DemoFailed(PenstockError):
    """A part of the demo other than Penstock could not do its work."""

    kind = "demo_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """One producer's end between a PUT and its acknowledgement, and its return."""

    producer: str
    entry: int
    """The entry that made its last batch durable."""
    own_entry: bool
    """Whether it appended that entry itself; otherwise another producer did, with the batch it had handed over."""
    events: int
    """The number of events of that batch."""
    first: int
    last: int
    """The last sequence of that batch; above, the first."""
    acknowledged: int
    """The number of events whose acknowledgement it had when it was killed."""
    killed_ms: int
    """The time of the kill by the wall clock."""
    durable: int = 0
    """The number of its events that it found in the topic when it came back."""


@dataclass(frozen=True, slots=True)
class DriverCrash:
    """The Spark driver's end between two of its commits, and its return."""

    target: str
    """The table that had its commit; the next ones did not."""
    batches: int
    """The number of batches that had been applied as a whole."""
    killed_ms: int
    """The time of the kill by the wall clock."""
    returned_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """The work of the producers."""

    events: int
    seconds: float
    """The time from the first send to the last acknowledgement, the crash and the return included."""
    crash: Crash | None
    requests: StoreStatistics


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of the comparisons; every run makes both."""

    tables: Sequence[TableDifference]
    stream: StreamDifference

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.stream.equal and all(table.equal for table in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A whole run."""

    lake: str
    topic: str
    tables: str
    """The folder of the target tables."""
    producers: int
    produced: Produced
    driver_crash: DriverCrash | None
    freshness: Freshness
    """The freshness: from an event's append to the commit that shows it in its target table."""
    freshness_undisturbed: Freshness
    """The freshness of those events that did not wait while there was no driver."""
    picture: Sequence[str]
    """The picture's lines for a terminal."""
    lag_ms: int
    """The longest time from an event's append to the Delta commit that shows it."""
    requests: StoreStatistics
    """The requests of the producers and the publisher; Spark's are not among them."""
    seconds: dict[str, float]
    """The seconds of every step."""
    findings: Findings


def total(statistics: Sequence[StoreStatistics]) -> StoreStatistics:
    """The requests of several processes together."""

    def of_verb(verb: str) -> VerbStatistics:
        counts = [getattr(one, verb) for one in statistics]
        return VerbStatistics(**{f.name: sum(getattr(count, f.name) for count in counts) for f in fields(VerbStatistics)})

    return StoreStatistics(**{f.name: of_verb(f.name) for f in fields(StoreStatistics)})
