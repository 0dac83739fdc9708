"""The conditions of each step of the timers, one function each. Pure; docs/0013 says what breaks without each."""

from __future__ import annotations

from ....log.format.state import TopicState
from ....log.limits import NAMED_ROW_MS
from ....log.runtime.runtime import Clock
from ....log.topic.settings import TopicRecord
from .state import Claim, TimerState

PRODUCER = "%TIMER%"
"""The name under which due messages are appended to their topic."""
_CLOCKS_DIFFER_MS = 5 * 24 * 3600 * 1000
_ORPHAN_MS = 48 * 3600 * 1000


def due_until_us(store_us: int, clock: Clock) -> int:
    """The latest due time that may be delivered now.

    ``store_us`` is a time that the store's clock has certainly reached (`store_time`). ``clock`` gives the store times of appended
    messages. So no message is early by the store's clock. Nor is its store time before its delivery time, unless the topic was silent for
    more than a day: then store times lag, as one entry takes them on by a day at most.
    """
    return min(store_us, 1000 * clock.wall_ms())


def belongs(log: TopicRecord, topic: TopicRecord) -> bool:
    """Whether the messages of a timer log were sent to this life of the topic."""
    return log.of == topic.incarnation


def still_open(state: TimerState, claim: Claim) -> bool:
    """Whether a claim may be appended, by the cell as read after the name was opened: nobody has settled it meanwhile."""
    return state.claim == claim


def has_begun(topic: TopicState) -> bool:
    """Whether something was delivered to a topic. Then there is a cell, or it was lost."""
    row = topic.named.get(PRODUCER)
    return row is not None and row.last >= 0


def is_behind(state: TimerState, last_sequence: int) -> bool:
    """Whether the topic holds sequences that the cell never gave. Then the cell was lost, or restored from a backup."""
    return last_sequence >= state.next_sequence


def may_be_forgotten(claim: Claim, *, now_ms: int) -> bool:
    """Whether the claim may have been appended so long ago that the name has left the topic's state since. It does when silent for 30 days.

    A claim is not appended before its messages are due. The age of the name's last use would tell less: an opening is a use, and who
    opened it may have ended before it looked.
    """
    return now_ms - claim.bounds.due.time_us // 1000 > NAMED_ROW_MS - _CLOCKS_DIFFER_MS


def too_soon_us(claim: Claim, now_us: int) -> int:
    """How long an open claim must wait, because the clock of the process that made it was ahead."""
    return max(0, claim.bounds.due.time_us - now_us)


def needed_from(state: TimerState) -> int:
    """The first offset of the timer log that retention must spare."""
    return state.gathered


def is_orphan(name: str, state: TimerState, *, modified_ms: int, now_ms: int) -> bool:
    """Whether the object of a run is an orphan: the cell does not name it, and its writer has long given up naming it."""
    return all(run.name != name for run in (*state.runs, *state.recalls)) and now_ms - modified_ms > _ORPHAN_MS
