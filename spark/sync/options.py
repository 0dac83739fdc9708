"""What a sync is told to do, and what it tells of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...cdc.targets import Declared
from ...log.errors import PenstockError
from ..lakes import LakePlace
from .steps import NO_STEPS, Steps


class PoisonEvent(PenstockError):
    """An event of which it cannot be told which table it is of."""

    kind = "poison_event"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a sync is to do."""

    place: LakePlace
    topic: str
    into: str
    name: str
    tables: frozenset[str] | None = None
    history: frozenset[str] | bool = False
    declared: Declared = field(default_factory=Declared)
    max_events_per_batch: int = 100_000
    guard: bool = True
    adopt: bool = False
    tasks: int = 1
    events_in_driver: int = 50_000
    """Batches of no more events are folded in the driver, also with Spark."""
    steps: Steps = NO_STEPS


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch did."""

    number: int
    events: int
    seconds: float
    merged: Mapping[str, int] = field(default_factory=dict)
    """Events by target that was written."""
    lag: int = 0
    """Events of the topic that are still to come, as far as it was known at the batch's beginning."""
