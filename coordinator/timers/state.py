"""What a topic's timer cell says: which of the messages that wait have been let go, or called back. Pure.

Messages wait in the topic's timer log, in the order in which they were sent. Two bounds say which of them were let go: all that were *known*
(sent below an offset) and *due* (by delivery time, then offset, not behind a message). Both bounds only rise. So what one step lets go is
what lies within the new bounds and not within the old ones: the cell names it in four numbers, and whoever reads the same cell and the same
timer log finds the same messages, in the same order, however many they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...log.errors import CallError, LimitExceeded

RECALLED_MAX = 4_096
"""So many recalled messages may wait for their time in the cell; about 16 KiB."""


class Due(NamedTuple):
    """When a message is due, and its place among those that are due at the same time."""

    time_us: int
    """Since the epoch."""
    offset: int
    """In the timer log."""


NEVER = Due(-1, -1)


class Bounds(NamedTuple):
    """Which messages were let go."""

    known: int = 0
    """Those below this offset of the timer log…"""
    due: Due = NEVER
    """…that were not due after this."""

    def within(self, due: Due) -> bool:
        return due.offset < self.known and due <= self.due


@dataclass(frozen=True, slots=True)
class Claim:
    """Messages on their way into the topic: what lies within ``bounds`` and did not before."""

    bounds: Bounds
    sequence: int
    """Of the first of them, by delivery time and offset; the others follow without a gap."""
    count: int


@dataclass(frozen=True, slots=True)
class Run:
    """Messages that wait, by delivery time, in an object that is never written again."""

    name: str
    rows: int
    size_bytes: int
    last: Due
    """The one that is due last: once it was let go the run is not needed any more."""


class NotRecallable(CallError):
    """The message was let go, is on its way, or was recalled before."""

    kind = "not_recallable"


def not_recallable(*, again: bool) -> NotRecallable:
    """The error of who recalls a message that was recalled before (``again``), or whose time is over: what was recalled is forgotten then."""
    return NotRecallable(
        "the message cannot be recalled any more",
        operation="recall",
        expected="a message that waits",
        observed="it was recalled before" if again else "it was delivered, is on its way, or was recalled and its time has passed",
        hint="`penstock trace` tells what became of it",
    )


@dataclass(frozen=True, slots=True)
class TimerState:
    """One topic's timers."""

    settled: Bounds = field(default_factory=Bounds)
    """What is within is in the topic, or was recalled."""
    claim: Claim | None = None
    next_sequence: int = 0
    """Given to nothing yet."""
    gathered: int = 0
    """The offset of the timer log below which what waits is in a run; it does not rise above what is known to be let go or to wait."""
    runs: tuple[Run, ...] = ()
    recalled: frozenset[Due] = frozenset()
    """They go nowhere; listed until they are settled."""
    recalls: tuple[Run, ...] = ()
    """Objects with more of them: of messages that were known when they were written."""

    @property
    def bounds(self) -> Bounds:
        """Within is what was let go or is on its way: it cannot be recalled."""
        return self.settled if self.claim is None else self.claim.bounds

    def waits(self, due: Due) -> bool:
        """Whether a message is still to be let go."""
        return not self.bounds.within(due) and due not in self.recalled

    def claimed(self, due: Due) -> bool:
        """Whether a message that was not recalled is on its way."""
        return self.bounds.within(due) and not self.settled.within(due) and due not in self.recalled

    def with_claim(self, bounds: Bounds, count: int) -> TimerState:
        """The next messages on their way, once those that were have arrived."""
        before = self.bounds
        if bounds.known < before.known or bounds.due < before.due:
            raise ValueError(f"bounds only rise: {before} to {bounds}")
        claim = Claim(bounds, self.next_sequence, count)
        return replace(self.with_arrived(), claim=claim, next_sequence=self.next_sequence + count)

    def with_arrived(self) -> TimerState:
        """What was on its way is in the topic."""
        settled = self.bounds
        return replace(
            self,
            settled=settled,
            claim=None,
            runs=tuple(run for run in self.runs if run.last > settled.due),
            recalled=frozenset(due for due in self.recalled if not settled.within(due)),
            recalls=tuple(run for run in self.recalls if run.last > settled.due),
        )

    def with_recalled(self, due: Due) -> TimerState:
        """Raises `NotRecallable`, and `LimitExceeded` when too many were recalled whose time is still to come."""
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

    def with_spilled(self, recalled: frozenset[Due], absorbed: frozenset[str], run: Run) -> TimerState:
        """With some recalled messages in an object, in place of some objects that are in it too."""
        kept = tuple(one for one in self.recalls if one.name not in absorbed)
        more = (run,) if run.last > self.settled.due else ()
        return replace(self, recalled=self.recalled - recalled, recalls=(*kept, *more))

    def with_run(self, run: Run | None, gathered: int) -> TimerState:
        """With what waited below an offset of the timer log gathered in a run (None: nothing did)."""
        if not self.gathered <= gathered <= self.settled.known:
            raise ValueError(f"only what is known is gathered: {self.gathered} to {gathered}, of {self.settled.known}")
        return replace(self, gathered=gathered, runs=self.runs if run is None else (*self.runs, run))

    def with_merged(self, merged: frozenset[str], run: Run | None) -> TimerState:
        """With one run in place of some. Those that have gone meanwhile held nothing that waits any more."""
        kept = tuple(one for one in self.runs if one.name not in merged)
        more = () if run is None or run.last <= self.settled.due else (run,)
        return replace(self, runs=(*kept, *more))
