"""How much a consumer takes on at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Literal

from ..coordinator.limits import LETTERS_MAX
from ..log.limits import MEMORY_BYTES_MAX, MESSAGES_MAX, check_count

CONSUME_TIMEOUT = timedelta(minutes=15)
"""A handler that runs longer has failed."""
CONSUME_TIMEOUT_MAX = timedelta(days=7)
THREADS_MAX = 4_096
"""The most handlers of one consumer at once, threads or tasks."""
WINDOW_MAX = 100_000
"""The largest window that a queue's cell may track from its floor on."""
BATCH_MESSAGES_MAX = 10_000
"""The most messages in one list for a listener, or in one receive."""
MOST = {
    "threads": THREADS_MAX,
    "cache_messages": MESSAGES_MAX,
    "cache_bytes": MEMORY_BYTES_MAX,
    "batch_messages": BATCH_MESSAGES_MAX,
    "receive_max": BATCH_MESSAGES_MAX,
    "window": WINDOW_MAX,
    "waiting": WINDOW_MAX,
}
"""The upper bound of each count that a consumer accepts."""
HUNG_MAX = 100
"""The most handlers that were given up and still run. With more, a consumer ends."""
ROUNDS_PER_TIMEOUT = 4
"""How often, within the timeout, handlers that run too long are looked for; at least once a second."""


def check_counts(options: object, *names: str, operation: str) -> None:
    """Raise `InvalidArgument` for a value that is no count, `LimitExceeded` for one above `MOST`."""
    for name in names:
        check_count(name, getattr(options, name), most=MOST[name], operation=operation)


class QueueMode(Enum):
    """What a queue may do at the moment."""

    USUAL = auto()
    QUIET = auto()
    """Start nothing: a suspect is to run alone in this process."""
    SOLO = auto()
    """Start one suspect, with nothing else in flight."""
    DRAIN = auto()
    """Start nothing more, and give back what was not started: the queue goes to another owner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """How much one queue takes on."""

    run_messages: int = 64
    """The most messages of one lane given to the executor at once, so that other lanes get their turn; also the most in a batch."""
    threads: int = 1
    """Handlers at once. Messages that may run side by side are divided among them."""
    few_lanes: int = 8
    """The number of lanes below which a lane may take this many times as much: hardly any other waits."""
    batch_of: Literal["group", "queue"] | None = None
    """How messages are grouped into lists for the listener. None: it is given one message at a time."""
    retained: int = 1_000
    """Messages behind markers, and waiting ones, kept in memory. Further ones are read again."""
    window: int = 10_000
    """The most offsets from the floor up to the last message that was granted."""
    waiting: int | None = 1_000
    """The number of waiting messages in the queue's cell: of those that wait by themselves, the next ones due. When it has half as many
    more, those due last go into objects beside it. None: all are in the cell.
    """
    letters: int = LETTERS_MAX
    """The most dead letters that are to be written. When there are this many, nothing more is given up: messages due for it stay as if
    their handlers still ran.
    """
    tracked: int = 2_000
    """The most blocked groups and messages tracked by themselves. When there are this many, fetching pauses."""

    @property
    def objects(self) -> int:
        """The most objects beside the cell. With more, several small ones become one."""
        return min(32, max(2, (self.waiting or 0) // 4))

    @property
    def full(self) -> int:
        """The number of entries that the cell has room for, whatever their numbers. When there are this many, failed messages stay in the
        window until others are done.
        """
        return self.tracked * 9 // 8
