"""Counts the waiting messages of a topic's timers and finds the next one, at a small cost."""

from __future__ import annotations

from dataclasses import dataclass

from ...log.errors import TopicNotFound
from ...log.lake import LogLake
from ...log.produce.delays import QUEUE
from ...log.read.reader import Reader
from ..cells.cells import Cells
from .runs.memtable import due_times
from .waiting_messages import read_timer_state, waiting

READ_ROWS_MAX = 1_000
"""The rows read for counting, or for the next message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCount:
    """The waiting messages of a topic."""

    messages: int = 0
    exact: bool = True
    """Otherwise the count includes recalled messages whose time is over."""
    next_due_us: int | None = None
    """The due time of the first, in microseconds since the epoch; None without any, or if too much was sent lately."""


async def sent_and_waiting(lake: LogLake, cells: Cells, topic: str) -> int:
    """The waiting messages, in two requests; includes recalled messages whose time is over. Raises `TopicNotFound` and `DataDamaged`."""
    _, log = await lake.timer_log(topic)
    await log.tail.catch_up()
    if not log.is_current:
        _, log = await lake.timer_log(topic)
    state = await read_timer_state(cells, lake.runtime.clock, topic, log.record.incarnation)
    return max(0, log.tail.state.next_offset(QUEUE) - state.next_sequence - len(state.recalled))


async def count_waiting(lake: LogLake, cells: Cells, topic: str) -> WaitingCount:
    """Count the waiting messages of a topic of type DELAY; more than `READ_ROWS_MAX` by numbers in the cell. Raises `TopicNotFound` and
    `DataDamaged`.
    """
    try:
        _, log = await lake.timer_log(topic)
    except TopicNotFound:
        await lake.topic(topic)  # raises when the topic itself has gone
        return WaitingCount()  # its timer log is made by the first message
    state = await read_timer_state(cells, lake.runtime.clock, topic, log.record.incarnation)
    sent = (await Reader(log).offsets())[QUEUE][1]
    lately = sent - state.gathered
    if lately > READ_ROWS_MAX:
        return WaitingCount(messages=max(0, sent - state.next_sequence - len(state.recalled)), exact=False)
    exact = lately + sum(run.rows for run in state.runs) <= READ_ROWS_MAX
    rows = await waiting(lake, cells, topic, limit=None if exact else 1)
    next_due_us = int(due_times(rows)[0]) if rows.num_rows else None
    messages = rows.num_rows if exact else max(rows.num_rows, sent - state.next_sequence - len(state.recalled))
    return WaitingCount(messages=messages, exact=exact, next_due_us=next_due_us)
