"""The appends that one process has on their way into the log, and how entries, jumps, time and faults settle them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..errors import PenstockError, UnknownOutcome
from ..format.fold import Folded
from ..format.state import State
from .pending_append import Pending, after_fold, after_jump, at_deadline, is_expired

_LISTING_MS = 100
"""The age below which a hand-over does not count as passed over by an entry: the entry's writer may have listed before it."""


class InFlight:
    """The appends whose outcome is not known yet, in the order in which they came."""

    def __init__(self) -> None:
        self._appends: list[Pending] = []

    def __bool__(self) -> bool:
        return any(not one.done for one in self._appends)

    @property
    def open(self) -> list[Pending]:
        """The appends whose outcome is not known yet."""
        self._appends = [one for one in self._appends if not one.done]
        return list(self._appends)

    def add(self, pending: Pending) -> None:
        self._appends.append(pending)

    def folded(self, folded: Folded) -> None:
        """Settle appends by an entry that was folded right after the one before."""
        for pending in self.open:
            outcome = after_fold(pending, folded)
            if outcome is not None:
                pending.settle(outcome)
            elif pending.handed_tail is not None and folded.header.append_time_ms > pending.handed_ms + _LISTING_MS:
                pending.passed_over += 1
        self._renew_expired(folded.state)

    def jumped(self, state: State) -> None:
        """Settle appends after entries were passed over."""
        for pending in self.open:
            outcome = after_jump(pending, state)
            if outcome is not None:
                pending.settle(outcome)
        self._renew_expired(state)

    def _renew_expired(self, state: State) -> None:
        for pending in self.open:
            if is_expired(pending, state):
                if pending.batch and pending.rows is not None:
                    pending.batch = replace(pending.batch, parts=())
                pending.valid_from(state.entry)

    def end_overdue(self, now_s: float, state: State) -> None:
        """Settle overdue appends, even if the timer is late. Nothing leaves this process after its deadline: staged rows it links may
        be gone by then.
        """
        for pending in self.open:
            if now_s >= pending.deadline_s:
                pending.settle(at_deadline(pending, state))

    def end(self, state: State) -> None:
        """Settle all appends, since nobody goes on with them."""
        for pending in self.open:
            pending.settle(at_deadline(pending, state))

    def fail(self, error: PenstockError, state: State) -> None:
        """End all appends after a fault that waiting does not mend. An append gets the fault itself where nothing of it can have been
        written.
        """
        for pending in self.open:
            if state.entry >= pending.exposed_until:
                pending.settle(error)
            else:
                unknown = UnknownOutcome(
                    "the send may be in the log, and a fault keeps this process from telling",
                    operation="append",
                    observed=str(error),
                    hint="reopen the producer; a named producer's last_sequence says what was written",
                )
                unknown.__cause__ = error
                pending.settle(unknown)


def expose(chosen: Sequence[Pending], until: int) -> Callable[[], None]:
    """Note that a request is about to leave that may bring these appends as late as entry ``until``.

    Returns a function that takes the note back, for the case that the store has refused the only request for good.
    """
    before = [(pending, pending.exposed_until) for pending in chosen]
    for pending in chosen:
        pending.exposed_until = max(pending.exposed_until, until)

    def take_back() -> None:
        for pending, exposed_until in before:
            pending.exposed_until = exposed_until

    return take_back
