"""A consumer's limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Literal

from ..coordinator.limits import LETTERS_MAX
from ..log.limits import MEMORY_BYTES_MAX, MESSAGES_MAX, check_count

CONSUME_TIMEOUT = timedelta(minutes=15)
CONSUME_TIMEOUT_MAX = timedelta(days=7)
THREADS_MAX = 4_096
"""Threads or tasks."""
WINDOW_MAX = 100_000
"""The largest window from the floor of a queue's cell."""
BATCH_MESSAGES_MAX = 10_000
"""Messages in one list for a listener, or in one receive."""
MOST = {
    "threads": THREADS_MAX,
    "cache_messages": MESSAGES_MAX,
    "cache_bytes": MEMORY_BYTES_MAX,
    "batch_messages": BATCH_MESSAGES_MAX,
    "receive_max": BATCH_MESSAGES_MAX,
    "window": WINDOW_MAX,
    "waiting": WINDOW_MAX,
}
HUNG_MAX = 100
"""The given-up handlers that still run, above which a consumer ends."""
ROUNDS_PER_TIMEOUT = 4
"""The checks for overdue handlers within the timeout; at least one a second."""


def check_counts(options: object, *names: str, operation: str) -> None:
    """Raise `InvalidArgument` for no count, `LimitExceeded` above `MOST`."""
    for name in names:
        check_count(name, getattr(options, name), most=MOST[name], operation=operation)


class QueueMode(Enum):
    """The permitted steps of a queue."""

    USUAL = auto()
    QUIET = auto()
    """Start nothing: a suspect is to run alone in this process."""
    SOLO = auto()
    """Start one suspect, with nothing else in flight."""
    DRAIN = auto()
    """Give back unstarted messages: the queue goes to another owner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """The limits of one queue."""

    run_messages: int = 64
    """The most messages of one lane given to the executor at once, for other lanes' sake; also the most in a batch."""
    threads: int = 1
    """Handlers at once, among which independent messages are divided."""
    few_lanes: int = 8
    """The number of lanes below which a lane may take this many times as much, as may those that message groups share."""
    shared_lanes: int = 32
    """The lanes that many message groups share; with twice as many or fewer in a fetch, each has its own."""
    batch_of: Literal["group", "queue"] | None = None
    """The grouping of messages into lists for the listener. None: one message at a time."""
    retained: int = 1_000
    """Messages behind markers, and waiting ones, kept in memory."""
    window: int = 10_000
    """The most offsets from the floor up to the last granted message."""
    waiting: int | None = 1_000
    """The most waiting messages in the queue's cell, those due next; with half as many more, those due last go into objects. None: all are in the
    cell.
    """
    letters: int = LETTERS_MAX
    """The most unwritten dead letters. Above, messages stay as if their handlers still ran."""
    tracked: int = 2_000
    """The most blocked groups and tracked messages. Above, fetching pauses."""

    @property
    def objects(self) -> int:
        """The most objects beside the cell, above which small ones are merged."""
        return min(32, max(2, (self.waiting or 0) // 4))

    @property
    def full(self) -> int:
        """The entries for which the cell has room. Above, failed messages stay in the window."""
        return self.tracked * 9 // 8
