"""The content of a topic's timer cell. Pure.

Messages wait in the topic's timer log. Those delivered are within two bounds, which only rise: *known* (sent below an offset) and *due* (by delivery
time, then offset).

One step delivers the messages within the new bounds and not within the old ones: the same, in the same order, in every process.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ....log.errors import CallError, LimitExceeded

RECALLED_MAX = 4_096
"""The most recalled messages in the cell; about 16 KiB."""


class DuePosition(NamedTuple):
    """The time when a message is due, then its offset."""

    time_us: int
    """Microseconds since the epoch."""
    offset: int


NEVER = DuePosition(-1, -1)


class DeliveredBounds(NamedTuple):
    """The bounds of the delivered messages: below offset ``known``, and not due after ``due``."""

    known: int = 0
    due: DuePosition = NEVER

    def within(self, due: DuePosition) -> bool:
        return due.offset < self.known and due <= self.due


@dataclass(frozen=True, slots=True)
class Claim:
    """Messages on their way into the topic, within ``bounds`` and not within the former ones."""

    bounds: DeliveredBounds
    sequence: int
    """The sequence of the first message in delivery order; others follow without a gap."""
    count: int


@dataclass(frozen=True, slots=True)
class TimerRun:
    """Waiting messages, by delivery time, in an immutable object."""

    name: str
    rows: int
    size_bytes: int
    last: DuePosition
    """The message that is due last."""


class NotRecallable(CallError):
    """The message is delivered, on its way, or recalled before."""

    kind = "not_recallable"


def not_recallable(*, again: bool) -> NotRecallable:
    return NotRecallable(
        "the message cannot be recalled any more",
        operation="recall",
        expected="a message that waits",
        observed="it was recalled before" if again else "it was delivered, is on its way, or was recalled and its time has passed",
        hint="`penstock trace` tells what became of it",
    )


@dataclass(frozen=True, slots=True)
class TimerState:
    """The state of one topic's timers."""

    settled: DeliveredBounds = field(default_factory=DeliveredBounds)
    """The bounds within which every message is in the topic or recalled."""
    claim: Claim | None = None
    next_sequence: int = 0
    """The first sequence that was not given yet."""
    gathered: int = 0
    """The timer log's offset below which waiting messages are in runs."""
    runs: tuple[TimerRun, ...] = ()
    recalled: frozenset[DuePosition] = frozenset()
    """Recalled messages, listed until they are settled."""
    recalls: tuple[TimerRun, ...] = ()
    """Objects with more recalled messages, known at their writing."""

    @property
    def bounds(self) -> DeliveredBounds:
        """Messages within are delivered or on their way."""
        return self.settled if self.claim is None else self.claim.bounds

    def waits(self, due: DuePosition) -> bool:
        return not self.bounds.within(due) and due not in self.recalled

    def claimed(self, due: DuePosition) -> bool:
        return self.bounds.within(due) and not self.settled.within(due) and due not in self.recalled

    def with_claim(self, bounds: DeliveredBounds, count: int) -> TimerState:
        before = self.bounds
        if bounds.known < before.known or bounds.due < before.due:
            raise ValueError(f"bounds only rise: {before} to {bounds}")
        claim = Claim(bounds, self.next_sequence, count)
        return replace(self.with_arrived(), claim=claim, next_sequence=self.next_sequence + count)

    def with_arrived(self) -> TimerState:
        settled = self.bounds
        return replace(
            self,
            settled=settled,
            claim=None,
            runs=tuple(run for run in self.runs if run.last > settled.due),
            recalled=frozenset(due for due in self.recalled if not settled.within(due)),
            recalls=tuple(run for run in self.recalls if run.last > settled.due),
        )

    def with_recalled(self, due: DuePosition) -> TimerState:
        """Raises `NotRecallable`, and `LimitExceeded` when too many recalled messages wait."""
        if not self.waits(due):
            raise not_recallable(again=due in self.recalled)
        if len(self.recalled) >= RECALLED_MAX:
            raise LimitExceeded(
                "too many messages were recalled whose delivery time is still to come",
                operation="recall",
                expected=f"at most {RECALLED_MAX}",
                observed=len(self.recalled),
                hint="try again when some of their times have passed; or let the consumer see that the message is void",
            )
        return replace(self, recalled=self.recalled | {due})

    def with_spilled(self, recalled: frozenset[DuePosition], absorbed: frozenset[str], run: TimerRun) -> TimerState:
        """An object replaces recalled messages and ``absorbed`` objects."""
        kept = tuple(one for one in self.recalls if one.name not in absorbed)
        more = (run,) if run.last > self.settled.due else ()
        return replace(self, recalled=self.recalled - recalled, recalls=(*kept, *more))

    def with_run(self, run: TimerRun | None, gathered: int) -> TimerState:
        """Messages below an offset are in a run; None if none waited."""
        if not self.gathered <= gathered <= self.settled.known:
            raise ValueError(f"only what is known is gathered: {self.gathered} to {gathered}, of {self.settled.known}")
        return replace(self, gathered=gathered, runs=self.runs if run is None else (*self.runs, run))

    def with_merged(self, merged: frozenset[str], run: TimerRun | None) -> TimerState:
        """Runs gone meanwhile held no waiting message."""
        kept = tuple(one for one in self.runs if one.name not in merged)
        more = () if run is None or run.last <= self.settled.due else (run,)
        return replace(self, runs=(*kept, *more))
