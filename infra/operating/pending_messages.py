"""Messages on their way to a topic: delayed ones, and half messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ...log import MessageType, TopicNotFound
from ...log.paths import is_timer_log
from .times import time_of

if TYPE_CHECKING:
    from ...aio import Lake

_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessages:
    """The delayed messages that wait for a topic."""

    messages: int
    exact: bool
    """Otherwise the count includes recalled messages whose time is over."""
    next_due: datetime | None
    """None: nothing waits, or too much was sent lately for a search."""

    @property
    def count_text(self) -> str:
        return f"{'' if self.exact else 'at most '}{self.messages:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWaiting:
    """A topic for which messages wait."""

    topic: str
    waiting: WaitingMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransactions:
    """The open transactions with messages to a topic."""

    open: int
    messages: int
    """Messages of the open ones."""
    oldest: datetime | None
    not_finished: int
    """Decided transactions that are not carried out everywhere."""


async def waiting_messages(lake: Lake, topic: str, kind: MessageType) -> WaitingMessages | None:
    """None: not of type DELAY, or a timer log."""
    from ...coordinator.timers.cell.cell import timer_cells
    from ...coordinator.timers.waiting_count import count_waiting
    from ...log.message.message import from_us

    if kind is not MessageType.DELAY or is_timer_log(topic):
        return None
    found = await count_waiting(lake, timer_cells(lake), topic)
    next_due = None if found.next_due_us is None else from_us(found.next_due_us)
    return WaitingMessages(messages=found.messages, exact=found.exact, next_due=next_due)


async def waiting_by_topic(lake: Lake) -> list[TopicWaiting]:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def count(name: str) -> list[TopicWaiting]:
        async with limit:
            with suppress(TopicNotFound):  # it was deleted since it was listed
                found = await waiting_messages(lake, name, records[name].settings.message_type)
                return [TopicWaiting(topic=name, waiting=found)] if found is not None and found.messages else []
        return []

    records = await lake.topics(damaged="skip")
    return [one for some in await asyncio.gather(*map(count, sorted(records))) for one in some]


async def pending_transactions(lake: Lake, topic: str, kind: MessageType) -> PendingTransactions | None:
    """None: the topic takes no transactions."""
    from ...coordinator.transactions.statistics import open_transactions_of

    if MessageType.TRANSACTION not in kind.taken:
        return None
    service = lake.transactions
    rows = await asyncio.gather(*(service.rows(group) for group in await service.groups.groups()))
    found = open_transactions_of((row for some in rows for row in some), topic=topic)
    return PendingTransactions(
        open=found.open,
        messages=found.half_messages.get(topic, 0),
        oldest=None if found.oldest_ms is None else time_of(found.oldest_ms),
        not_finished=found.unfinished,
    )
