"""The conditions of each step of the timers. Pure; docs/0013 explains what breaks without each."""

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

    No message is early by the store's clock, which has certainly reached ``store_us`` (`store_time`). Nor is a message's store time, by
    ``clock``, before its delivery time, except in a topic silent for more than a day: one entry takes store times on by a day at most.
    """
    return min(store_us, 1000 * clock.wall_ms())


def belongs(log: TopicRecord, topic: TopicRecord) -> bool:
    """Whether the messages of a timer log were sent to this life of the topic."""
    return log.of == topic.incarnation


def still_open(state: TimerState, claim: Claim) -> bool:
    """Whether a claim, by the cell as read after the name was opened, is not settled yet."""
    return state.claim == claim


def has_begun(topic: TopicState) -> bool:
    """Whether the topic had a delivery. Then there is a cell, or it was lost."""
    row = topic.named.get(PRODUCER)
    return row is not None and row.last >= 0


def is_behind(state: TimerState, last_sequence: int) -> bool:
    """Whether the topic holds sequences that the cell, lost or restored from a backup, never gave."""
    return last_sequence >= state.next_sequence


def may_be_forgotten(claim: Claim, *, now_ms: int) -> bool:
    """Whether the claim may have been appended so long ago that the name has left the topic's state, after 30 silent days.

    A claim is not appended before its messages are due. The name's last use would prove less, as an opening is one.
    """
    return now_ms - claim.bounds.due.time_us // 1000 > NAMED_ROW_MS - _CLOCKS_DIFFER_MS


def too_soon_us(claim: Claim, now_us: int) -> int:
    """The wait of an open claim whose maker's clock was ahead."""
    return max(0, claim.bounds.due.time_us - now_us)


def needed_from(state: TimerState) -> int:
    """The first offset that retention must spare."""
    return state.gathered


def is_orphan(name: str, state: TimerState, *, modified_ms: int, now_ms: int) -> bool:
    """Whether a run's object is unnamed, and its writer has long given up naming it."""
    return all(run.name != name for run in (*state.runs, *state.recalls)) and now_ms - modified_ms > _ORPHAN_MS
