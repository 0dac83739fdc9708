"""Delayed messages, as their senders and operators see them: listed and recalled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.cell.state import DuePosition, NotRecallable
from penstock.coordinator.timers.waiting_messages import read_timer_state, recall, waiting
from penstock.log import (
    InvalidArgument,
    LogLake,
    MessageNotFound,
    OffsetOutOfRange,
    Reader,
    Topic,
    TopicDeleted,
    TopicNotFound,
    WaitingMessage,
)
from penstock.log.limits import is_positive
from penstock.log.message.message import to_us
from penstock.log.produce.delays import QUEUE, RecallHandle, waiting_messages
from penstock.log.topic.timer_log import check_own, delays

T = TypeVar("T")


class DelayedMessages:
    """The delayed messages of a lake."""

    def __init__(self, lake: LogLake) -> None:
        self._lake = lake

    async def recall(self, meant: RecallHandle) -> WaitingMessage:
        """See `LogLake.recall`; the lake must be writable."""
        return await _told_of_lives(lambda: self._recall(meant))

    async def _recall(self, meant: RecallHandle) -> WaitingMessage:
        try:
            _, log = await self._lake.timer_log(meant.topic)
        except TopicNotFound as error:
            raise _unknown(meant, f"no topic {meant.topic} with delayed messages") from error
        message = await self._waiting_message(log, meant)
        due = DuePosition(meant.due_us, meant.offset)
        try:
            await recall(
                timer_cells(self._lake), self._lake.runtime.clock, meant.topic, log.record.incarnation, due, lake=self._lake
            )
        except NotRecallable as error:
            error.object = meant.message_id
            raise
        return message

    async def waiting(self, topic: str, *, until: datetime | None, limit: int | None) -> list[WaitingMessage]:
        """See `LogLake.waiting`."""
        until_us = None if until is None else _checked_us(until)
        if limit is not None and not is_positive(limit):
            raise InvalidArgument("limit must be a positive whole number, or None", operation="waiting", observed=limit)
        check_own(topic, operation="waiting")
        return await _told_of_lives(lambda: self._waiting(topic, until_us, limit))

    async def _waiting(self, topic: str, until_us: int | None, limit: int | None) -> list[WaitingMessage]:
        opened = await self._lake.topic(topic)
        if not delays(opened.record):
            raise InvalidArgument(
                "nothing waits for this topic, as its messages are not delayed",
                operation="waiting",
                object=topic,
                expected="a topic of type DELAY",
                observed=opened.settings.message_type,
            )
        try:
            rows = await waiting(self._lake, timer_cells(self._lake), topic, until_us=until_us, limit=limit)
        except TopicNotFound:
            await self._lake.topic(topic)  # raises when the topic itself is gone
            return []  # the first message makes its timer log
        return list(waiting_messages(topic, rows))

    async def _waiting_message(self, log: Topic, meant: RecallHandle) -> WaitingMessage:
        """The message of a handle. Raises `MessageNotFound`, or `NotRecallable`."""
        try:
            rows = await Reader(log).to_arrow(queue=QUEUE, start=meant.offset, end=meant.offset + 1)
        except OffsetOutOfRange as error:
            following = (await Reader(log).offsets())[QUEUE][1]
            if meant.offset >= following:
                raise _unknown(meant, f"messages sent below offset {following}") from error
            rows = await self._gathered(log, meant)
        for message in waiting_messages(meant.topic, rows):
            if message.recall_handle == meant.encode():
                return message
        raise _unknown(meant, "another message in its place" if rows.num_rows else "no such message")

    async def _gathered(self, log: Topic, meant: RecallHandle) -> pa.Table:
        """The row of a message that waits longer than the timer log keeps it."""
        due = DuePosition(meant.due_us, meant.offset)
        cells = timer_cells(self._lake)
        if not (await read_timer_state(cells, self._lake.runtime.clock, meant.topic, log.record.incarnation)).waits(due):
            raise NotRecallable(
                "the message cannot be recalled any more",
                operation="recall",
                object=meant.message_id,
                expected="a message that waits",
                observed="it was delivered, is on its way, or was recalled before",
                hint="`penstock trace` tells what became of it",
            )
        rows = await waiting(self._lake, cells, meant.topic, from_us=meant.due_us, until_us=meant.due_us + 1)
        return rows.filter(pa.array([offset == meant.offset for offset in rows["offset"].to_pylist()], pa.bool_()))


async def _told_of_lives(work: Callable[[], Awaitable[T]]) -> T:
    """Do something with a topic, and once more when the topic turns out to be deleted, and perhaps made anew."""
    try:
        return await work()
    except TopicDeleted:
        return await work()


def _checked_us(until: object) -> int:
    if not isinstance(until, datetime):
        raise InvalidArgument("until must be a datetime, or None", operation="waiting", observed=repr(until))
    return to_us(until)


def _unknown(meant: RecallHandle, observed: str) -> MessageNotFound:
    return MessageNotFound(
        "this lake has no message of this recall handle",
        operation="recall",
        object=meant.message_id,
        expected=f"a message that was sent to {meant.topic}",
        observed=observed,
        hint="it is of another lake, or its topic was deleted since",
    )
