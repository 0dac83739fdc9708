"""Decides which process appends next, by what each knows of the others.

Plain retries starve: the last writer knows the tail first, and wins again. So a process that loses a race *combines* for a while: it lists
hand-overs, and other processes hand over instead of racing. No verdict of the fold depends on this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import xxhash

from ..format.header import Header
from .in_flight import PendingAppend

LOST_RACES_MAX = 1
LIST_UNASKED_EVERY = 64
"""The entries after which a process that never loses a race lists hand-overs once, so that none starves."""
PASSED_OVER_MAX = 2
BUSY_BATCHES = 4
"""The combined batches from which a writer is expected to combine for another second."""
_NEVER_S = float("-inf")


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds."""

    combine_s: float = 0.045
    linger_s: float = 0.5
    """The time for which a process combines after its last find."""
    contended_s: float = 3.0
    """The time after another's entry or a lost race in which a process probes before each append."""
    looked_s: float = 0.1
    """The greatest age of a probe before an append."""
    trusted_s: float = 1.0
    """The greatest age of a probe before a hand-over."""
    follow_first_s: float = 0.06
    follow_s: float = 0.03
    follow_max_s: float = 0.15
    step_in_s: float = 0.3
    step_in_spread_s: float = 0.6
    """The wait without an entry after which a follower appends itself(plus a share by rank); less than ``linger_s``."""
    retry_s: float = 0.05
    """The wait after an unknown outcome; doubled up to a second."""


class NextStep(Enum):
    """The next step for what is pending."""

    APPEND = "append"
    LOOK = "look"
    FOLLOW = "follow"


def decide(*, leading: bool, contended: bool, served: bool, looked: bool, passed_over: int) -> NextStep:
    """The next step of an appender with pending appends.

    ``leading``: the log's last entry is ours. ``contended``: others append too. ``served``: a process combines. ``looked``: the view is fresh.
    ``passed_over``: entries since our oldest hand-over that did not bring it.
    """
    if leading or not contended:
        return NextStep.APPEND
    if served and passed_over < PASSED_OVER_MAX:
        return NextStep.FOLLOW
    return NextStep.APPEND if looked else NextStep.LOOK


def rank(process: str, entry: int) -> float:
    """A process's position from 0 to 1 among those waiting to take an entry."""
    return xxhash.xxh64_intdigest(f"{process}/{entry}".encode()) / 2**64


class Contention:
    """A process's knowledge of the race for the next entry, in seconds of the monotonic clock."""

    def __init__(self, process: str, pace: Pace, now_s: float) -> None:
        self._process = process
        self._pace = pace
        self.leading = False
        self.moved_s = now_s
        self.looked_s = _NEVER_S
        self.listed_s = _NEVER_S
        self._own_in_a_row = 0
        self._lost_in_a_row = 0
        self._combines_until_s = _NEVER_S
        self._contended_until_s = _NEVER_S
        self._combiner_s = _NEVER_S
        self._combiner_is_busy = False

    def next_step(self, now_s: float, entry: int, pending: Sequence[PendingAppend]) -> NextStep:
        return decide(
            leading=self.leading or self.in_charge(now_s),
            contended=self.contended(now_s),
            served=self.served(now_s, entry, pending),
            looked=self.looked(now_s),
            passed_over=max((one.passed_over for one in pending), default=0),
        )

    def contended(self, now_s: float) -> bool:
        return now_s < self._contended_until_s

    def combines(self, now_s: float) -> bool:
        return now_s < self._combines_until_s

    def in_charge(self, now_s: float) -> bool:
        """Whether this process alone combines, or was the last to begin."""
        return self.combines(now_s) and self._combiner_s == _NEVER_S

    def looked(self, now_s: float) -> bool:
        return now_s - self.looked_s < self._pace.looked_s

    def served(self, now_s: float, entry: int, pending: Sequence[PendingAppend]) -> bool:
        pace = self._pace
        if now_s - self.looked_s > (pace.trusted_s if self._combiner_is_busy else pace.looked_s):
            return False
        if self.looked_s - self._combiner_s < pace.step_in_s:
            return True
        handed_s = [one.handed_s for one in pending if one.handed_tail is not None]
        in_time = bool(handed_s) and min(handed_s) < self._combiner_s + pace.linger_s
        spread_s = pace.step_in_spread_s if self._combiner_is_busy else pace.step_in_s / 2
        patience_s = pace.step_in_s + spread_s * rank(self._process, entry)
        return in_time and now_s < self._combiner_s + patience_s

    def begin_append(self, now_s: float) -> None:
        if self._lost_in_a_row >= LOST_RACES_MAX or now_s - self._combiner_s < self._pace.contended_s:
            self._combines_until_s, self._combiner_s = now_s + self._pace.linger_s, _NEVER_S

    def lists_beside(self, now_s: float) -> bool:
        return self.combines(now_s) or self._own_in_a_row % LIST_UNASKED_EVERY == LIST_UNASKED_EVERY - 1

    def note_race(self, now_s: float, *, won: bool) -> None:
        self.leading = won
        self._own_in_a_row = self._own_in_a_row + 1 if won else 0
        self._lost_in_a_row = 0 if won else self._lost_in_a_row + 1
        if not won:
            self._contended_until_s = now_s + self._pace.contended_s

    def note_listed(self, now_s: float, *, found: bool) -> None:
        """Combine for longer where a LIST found hand-overs."""
        self.listed_s = now_s
        if found:
            self._combines_until_s = now_s + self._pace.linger_s

    def note_own(self, now_s: float) -> None:
        self.moved_s = now_s
        self._combiner_s = _NEVER_S

    def note_foreign(self, now_s: float, age_s: float, header: Header) -> None:
        self.moved_s = now_s
        if header.combines:
            self._combiner_s, self._combines_until_s = now_s - age_s, _NEVER_S
            self._combiner_is_busy = len(header.batches) >= BUSY_BATCHES
        self.looked_s = max(self.looked_s, now_s - age_s)
        self._contended_until_s = max(self._contended_until_s, now_s - age_s + self._pace.contended_s)
        self.leading = False
