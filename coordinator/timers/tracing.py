"""The progress of one delayed message, by the timer log and the timers' cell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ...log.lake import LogLake
from ...log.message.message import MessageView, to_us
from ...log.paths import topic_of
from ...log.topic.topics import Topic
from .cell.cell import timer_cells
from .cell.state import DuePosition, TimerState
from .runs.recalls import RecallObjects
from .waiting_messages import read_timer_state


class DelayState(StrEnum):
    """The state of a delayed message."""

    WAITING = "waiting"
    ON_ITS_WAY = "on its way"
    """The message is due, and is being appended to its topic."""
    RECALLED = "recalled"
    """The message was recalled before its time."""
    DELIVERED = "delivered"
    OVER = "over"
    """Its time is over, and it is not in its topic: expired, or recalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayTrace:
    """A delayed message."""

    topic: str
    due: datetime
    delay: DelayState


async def delay_of(lake: LogLake, log: Topic, message: MessageView, *, delivered: bool) -> DelayTrace | None:
    """The trace of a ``message`` in the timer log; None without a delivery time. ``delivered``: it is in its topic. Raises `DataDamaged`."""
    due = message.delivery_timestamp
    if due is None:
        return None
    topic = topic_of(message.topic)
    if delivered:  # the arrival of a claim is noted only by the next claim
        return DelayTrace(topic=topic, due=due, delay=DelayState.DELIVERED)
    state = await read_timer_state(timer_cells(lake), lake.runtime.clock, topic, log.record.incarnation)
    place = DuePosition(to_us(due), message.offset)
    recalls = RecallObjects(lake.store, lake.runtime, topic, log.record.incarnation)
    await recalls.keep_to(state.recalls)
    return DelayTrace(topic=topic, due=due, delay=DelayState.RECALLED if recalls.has(place) else delay_in(state, place))


def delay_in(state: TimerState, due: DuePosition) -> DelayState:
    if due in state.recalled:
        return DelayState.RECALLED
    if state.waits(due):
        return DelayState.WAITING
    return DelayState.ON_ITS_WAY if state.claimed(due) else DelayState.OVER
