"""How large a run with consumers is, and what its messages do to their handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from itertools import accumulate
from operator import mul
from typing import Literal

from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from penstock.coordinator.groups.retry import RetryPolicy
from penstock.log.read.reader import Position
from tests.simulation.simulated import SimulatedPlot

TOPIC = "orders"


class Temper(StrEnum):
    """What a message does to its handlers. What happens a few times counts over all handlers that it was ever given to."""

    GOOD = "good"
    SLOW = "slow"
    """It takes up to minutes, though less than it may."""
    RAISES = "raises"
    """A few times."""
    FAILS = "fails"
    """A few times."""
    LATER = "later"
    """It asks for a retry after a while, a few times."""
    HANGS = "hangs"
    """Beyond its time, a few times; it ends when it is cancelled."""
    STUBBORN = "stubborn"
    """The same, and it goes on when it is cancelled."""
    NONSENSE = "nonsense"
    """Its answer is None, a few times."""
    REJECTED = "rejected"
    """It can never succeed, and says so."""
    POISON = "poison"
    """It always raises."""
    KILLS = "kills"
    """It ends its process, always."""
    KILLS_ONCE = "kills once"


CALM: Mapping[Temper, float] = {Temper.GOOD: 1.0}
MIXED: Mapping[Temper, float] = {
    Temper.GOOD: 40.0,
    Temper.SLOW: 1.0,
    Temper.RAISES: 2.0,
    Temper.FAILS: 2.0,
    Temper.LATER: 1.0,
    Temper.HANGS: 0.7,
    Temper.STUBBORN: 0.7,
    Temper.NONSENSE: 0.5,
    Temper.REJECTED: 1.0,
    Temper.POISON: 1.0,
    Temper.KILLS: 0.3,
    Temper.KILLS_ONCE: 0.7,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """One consumer group, and how its members work."""

    order: DeliveryOrder = DeliveryOrder.ORDERLY
    policy: DeadLetterPolicy = DeadLetterPolicy.CONTINUE
    max_attempts: int | None = 3
    retry_s: float = 1.0
    batch: Literal["group", "queue"] | None = None
    batch_messages: int = 8
    threads: int = 8
    cache_messages: int = 1_024
    window: int = 10_000
    waiting: int = 1_000
    start: Position = "earliest"
    filter: str | None = None
    """As members state it; None: whatever the group takes."""
    mixed: bool = False
    """Each start of a member draws how it works anew; a few state what contradicts the group."""

    @property
    def settings(self) -> GroupSettings:
        return GroupSettings(
            delivery_order=self.order,
            retry=RetryPolicy(interval=timedelta(seconds=self.retry_s)),
            max_attempts=self.max_attempts,
            dead_letter_policy=self.policy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot(SimulatedPlot):
    """How large a run is."""

    queues: int = 3
    grows: tuple[int, ...] = ()
    """How many times as many queues the topic gets, each time that it grows."""
    groups: Mapping[str, GroupPlan] = field(default_factory=lambda: {"billing": GroupPlan()})
    messages: int = 60
    burst: tuple[int, int] = (1, 8)
    send_for_s: float = 40.0
    message_groups: int = 12
    keyless: bool = False
    """Messages have no message group: the topic is a NORMAL one, not FIFO."""
    machines: int = 3
    lease_s: float = 5.0
    tempers: Mapping[Temper, float] = field(default_factory=lambda: MIXED)
    work_s: tuple[float, float] = (0.001, 0.3)
    slow_s: tuple[float, float] = (1.0, 15.0)
    timeout_s: float = 20.0
    pause_s: tuple[float, float] = (0.1, 20.0)
    step_ms_max: int = 3_000
    patience_s: float | None = None
    """For a handler when a process closes; None: as long as it takes."""
    letters: int | None = None
    """So many dead letters of a queue may wait to be written; None: as many as in earnest."""
    orders_every_s: float = 0.0
    """Of operators."""
    alters: bool = False
    """Operators also alter the groups' settings."""
    tags: tuple[str | None, ...] = (None,)
    """Of messages."""
    restores_every_s: float = 0.0
    """The table is put back to how it was a while before, so often."""
    receives: bool = False
    """A receiver takes messages beside the handlers."""
    outages_every_s: float = 0.0
    outage_s: tuple[float, float] = (0.5, 40.0)

    @property
    def all_queues(self) -> tuple[int, ...]:
        """The numbers of queues that the topic has one after the other."""
        return tuple(accumulate(self.grows, mul, initial=self.queues))
