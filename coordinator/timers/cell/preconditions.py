"""The conditions of each step of the timers (docs/0013). Pure."""

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

    No message is early by the store's clock, which has reached ``store_us`` (`store_time`). Nor is its store time, by ``clock``, before its delivery
    time, except after a day's silence: an entry moves store times by a day at most.
    """
    return min(store_us, 1000 * clock.wall_ms())


def belongs(log: TopicRecord, topic: TopicRecord) -> bool:
    """Whether a timer log's messages were sent to this life of the topic."""
    return log.of == topic.incarnation


def still_open(state: TimerState, claim: Claim) -> bool:
    """Whether a claim is unsettled, by the cell as read after the name was opened."""
    return state.claim == claim


def has_begun(topic: TopicState) -> bool:
    """Whether the topic had a delivery, and so has or had a cell."""
    row = topic.named.get(PRODUCER)
    return row is not None and row.last >= 0


def is_behind(state: TimerState, last_sequence: int) -> bool:
    """Whether the topic holds sequences that the cell never gave: it was lost or restored."""
    return last_sequence >= state.next_sequence


def may_be_forgotten(claim: Claim, *, now_ms: int) -> bool:
    """Whether the claim may have been appended so long ago that the name has left the topic's state, after 30 silent days."""
    return now_ms - claim.bounds.due.time_us // 1000 > NAMED_ROW_MS - _CLOCKS_DIFFER_MS


def too_soon_us(claim: Claim, now_us: int) -> int:
    """The wait of an open claim whose maker's clock was ahead."""
    return max(0, claim.bounds.due.time_us - now_us)


def needed_from(state: TimerState) -> int:
    """The first offset that retention must spare."""
    return state.gathered


def is_orphan(name: str, state: TimerState, *, modified_ms: int, now_ms: int) -> bool:
    """Whether a run's object is unnamed, and too old to be named."""
    return all(run.name != name for run in (*state.runs, *state.recalls)) and now_ms - modified_ms > _ORPHAN_MS
