"""The options of a sync, and its report of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from ...cdc.fold import Refused, Truncates
from ...cdc.reading import Reading
from ...cdc.sources import Source, of_table
from ...cdc.targets import Declared
from ...log.errors import PenstockError
from ...log.limits import MIB
from ..lakes import LakePlace
from .steps import NO_STEPS, Steps


class PoisonEvent(PenstockError):
    """An event whose table cannot be told."""

    kind = "poison_event"

    @classmethod
    def at(cls, refused: Refused, topic: str) -> Self:
        """The error for a refused event."""
        queue, offset = refused.place
        return cls(
            refused.reason,
            operation="sync",
            object=f"{topic}, queue {queue}, offset {offset}",
            hint="nothing behind it in its queue is applied; see it with `penstock read`",
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a sync."""

    place: LakePlace
    topic: str
    into: str
    name: str
    tables: frozenset[str] | None = None
    history: frozenset[str] | bool = False
    declared: Declared = field(default_factory=Declared)
    reading: Reading = field(default_factory=Reading)
    max_events_per_batch: int = 100_000
    max_bytes_per_batch: int = 256 * MIB
    guard: bool = True
    truncates: Truncates = "ordered"
    adopt: bool = False
    tasks: int = 1
    events_in_driver: int = 50_000
    """The most events of a batch that is folded in the driver, also with Spark."""
    steps: Steps = NO_STEPS

    def historic(self, source: Source) -> bool:
        """Whether a table's target is to keep history."""
        history = self.history
        return history if isinstance(history, bool) else bool(of_table(dict.fromkeys(history, True), source))


@dataclass(frozen=True, slots=True)
class Batch:
    """The report of one batch."""

    number: int
    events: int
    seconds: float
    merged: Mapping[str, int] = field(default_factory=dict)
    """The number of events by target that was written."""
    lag: int = 0
    """The number of events of the topic that are still to come, as far as it was known at the batch's beginning."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """The number of a target's last events that lie behind what their queues told before, by the source's positions. Those whose rows are
    there change nothing. Such events come after a connector's restart; if they do not end, the source has moved to another server.
    """
    epoch: int = 0
    """The epoch of the lease under which it was applied. If it is higher than that of the batch before, the run had lost its lease and took
    it again.
    """
