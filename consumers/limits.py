"""How much a consumer takes on at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Literal

from ..coordinator.limits import LETTERS_MAX
from ..log.errors import InvalidArgument, LimitExceeded
from ..log.limits import MEMORY_BYTES_MAX, MESSAGES_MAX, check_count, plain

CONSUME_TIMEOUT = timedelta(minutes=15)
"""A handler that runs longer has failed."""
CONSUME_TIMEOUT_MAX = timedelta(days=7)
THREADS_MAX = 4_096
"""Handlers at once of one consumer, threads or tasks."""
WINDOW_MAX = 100_000
"""Of what a queue's cell may track from its floor on."""
BATCH_MESSAGES_MAX = 10_000
"""In one list for a listener, or in one receive."""
MOST = {
    "threads": THREADS_MAX,
    "cache_messages": MESSAGES_MAX,
    "cache_bytes": MEMORY_BYTES_MAX,
    "batch_messages": BATCH_MESSAGES_MAX,
    "receive_max": BATCH_MESSAGES_MAX,
    "window": WINDOW_MAX,
    "waiting": WINDOW_MAX,
}
"""Of each count that a consumer can be told."""
HUNG_MAX = 100
"""With more handlers that were given up and still run, a consumer ends."""
ROUNDS_PER_TIMEOUT = 4
"""How often it is looked in that time whether a handler runs too long; at least each second."""


def check_consume_timeout(timeout: object, operation: str) -> None:
    """Raise `InvalidArgument` for what is no time that a handler may take."""
    if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
        raise InvalidArgument("consume_timeout must be a timedelta above zero", operation=operation, observed=plain(timeout))
    if timeout > CONSUME_TIMEOUT_MAX:
        raise LimitExceeded(
            "consume_timeout is too long", operation=operation, expected=f"at most {CONSUME_TIMEOUT_MAX}", observed=str(timeout)
        )


def check_counts(options: object, *names: str, operation: str) -> None:
    """Raise `InvalidArgument` for what is no count, `LimitExceeded` for one above `MOST`."""
    for name in names:
        check_count(name, getattr(options, name), most=MOST[name], operation=operation)


class Mode(Enum):
    """What a queue may do at the moment."""

    USUAL = auto()
    QUIET = auto()
    """Start nothing: a suspect is to run alone in this process."""
    SOLO = auto()
    """Start one suspect, with nothing else in flight."""
    DRAIN = auto()
    """Start nothing more, and give back what was not started: the queue goes to another owner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much one queue takes on."""

    run_messages: int = 64
    """The most of one lane that is given to the executor at once, so that other lanes get their turn; the most in a batch."""
    threads: int = 1
    """Handlers at once: of messages that may run side by side, each is given its part."""
    few_lanes: int = 8
    """With fewer lanes than this, so many times as much: there are hardly others to wait."""
    batch_of: Literal["group", "queue"] | None = None
    """Whose messages the listener is given together; None: it is given one message at a time."""
    retained: int = 1_000
    """Messages behind markers, and waiting ones, kept in memory; more are read again."""
    window: int = 10_000
    """From the floor up to the last message that was granted."""
    waiting: int | None = 1_000
    """Of the messages that wait by themselves the next ones due, so many, are in the queue's cell. When it has half as many more, those due
    last go into objects beside it. None: all are in the cell.
    """
    letters: int = LETTERS_MAX
    """Dead letters that are to be written; from here on nothing more is given up: what would be stays as if its handler still ran."""
    tracked: int = 2_000
    """Blocked groups and messages tracked by themselves; from here on, fetching pauses."""

    @property
    def objects(self) -> int:
        """With more than so many objects beside the cell several small ones become one."""
        return min(32, max(2, (self.waiting or 0) // 4))

    @property
    def full(self) -> int:
        """So many of them the cell has room for, whatever their numbers: from here on, what fails stays in the window until others are done."""
        return self.tracked * 9 // 8
