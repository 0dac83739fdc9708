"""The decision after a worker's end: when it is replaced, and when the pool ends instead."""

from __future__ import annotations

from dataclasses import dataclass
from signal import Signals
from typing import Final, TypeAlias

WRONG_CALL: Final = 2
"""The exit code of a worker whose call or configuration is wrong."""
OTHER: Final = 1
STARTS_MAX: Final = 5
"""The failed starts of one worker, one after another, that end the pool."""
FIRST_PAUSE_S: Final = 0.5
_PAUSE_MAX_S: Final = 30.0
_LONG_S: Final = 60.0
"""A worker that has worked for so long did not die of what killed the one before."""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The end of a worker that nobody told to end."""

    code: int
    """The exit code; the negative number of a signal that killed it."""
    ready: bool
    """Whether it had begun to work."""
    lived_s: float
    finished: bool = False
    """Whether it said before that all its work is done."""


@dataclass(frozen=True, slots=True)
class PlaceHistory:
    """The ends at one worker's place in a row."""

    failed_starts: int = 0
    quick_ends: int = 0


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another worker takes the place after a pause."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The place stays empty, as the work is done."""


@dataclass(frozen=True, slots=True)
class PoolFailed:
    """The pool ends, with this exit code."""

    code: int
    failed_starts: int


Verdict: TypeAlias = Replaced | Finished | PoolFailed


def after_end(
    history: PlaceHistory, end: WorkerEnd, *, served: bool, spread: float, first_pause_s: float = FIRST_PAUSE_S
) -> tuple[PlaceHistory, Verdict]:
    """The place's history with this end, and what happens there.

    ``served``: whether any worker of the pool has worked since its start, or since the last reload. Until then a wrong call ends the pool at once,
    as it would be as wrong again. The pauses double, from ``first_pause_s`` to half a minute; ``spread``, from 0 to 1, keeps workers that died
    together from starting together.
    """
    if end.finished and end.code == 0:
        return history, Finished()
    if end.ready:
        history = PlaceHistory(quick_ends=1 if end.lived_s >= _LONG_S else history.quick_ends + 1)
    else:
        history = PlaceHistory(history.failed_starts + 1, history.quick_ends + 1)
        if history.failed_starts >= STARTS_MAX or (end.code == WRONG_CALL and not served):
            return history, PoolFailed(end.code if end.code > 0 else OTHER, history.failed_starts)
    pause_s = min(_PAUSE_MAX_S, first_pause_s * 2 ** min(history.quick_ends - 1, 10))
    return history, Replaced(pause_s * (1 - spread / 2))


def end_shown(code: int) -> str:
    """How a process ended, for people."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {Signals(-code).name}" if -code in set(Signals) else f"was killed by signal {-code}"
