"""Messages of a topic that are not in it yet: they wait for their delivery time, or for the outcome of their transaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeAlias

from ....aio import Lake
from ....coordinator.timers.cell.cell import timer_cells
from ....coordinator.timers.waiting_count import WaitingCount, count_waiting
from ....coordinator.transactions.statistics import OpenTransactions, open_transactions_of
from ....log import MessageType, TopicNotFound
from ....log.message.message import from_us
from ....log.paths import is_timer_log, timer_log_name
from ...console import output

_AT_ONCE = 8

Pending: TypeAlias = WaitingCount | OpenTransactions | None


async def pending_of(lake: Lake, topic: str, kind: MessageType) -> Pending:
    """The messages under way to a topic of this type; None: messages sent to it are in it at once."""
    if is_timer_log(topic):
        return None  # the messages that wait are in the timer log itself
    if kind is MessageType.DELAY:
        return await count_waiting(lake, timer_cells(lake), topic)
    if kind is not MessageType.TRANSACTION:
        return None
    service = lake.transactions
    rows = await asyncio.gather(*(service.rows(group) for group in await service.groups.groups()))
    return open_transactions_of((row for some in rows for row in some), topic=topic)


async def waiting_by_topic(lake: Lake) -> dict[str, WaitingCount]:
    """The topics of type DELAY for which messages wait."""
    limit, timers, found = asyncio.Semaphore(_AT_ONCE), timer_cells(lake), dict[str, WaitingCount]()

    async def count(name: str) -> None:
        async with limit:
            with suppress(TopicNotFound):  # it was deleted since it was listed
                found[name] = await count_waiting(lake, timers, name)

    records = await lake.topics(damaged="skip")
    delayed = [name for name, one in records.items() if one.settings.message_type is MessageType.DELAY and not is_timer_log(name)]
    await asyncio.gather(*map(count, delayed))
    return {name: found[name] for name in sorted(found) if found[name].messages}


def pending_facts(topic: str, pending: Pending) -> list[tuple[str, object]]:
    """The pending messages as facts for people."""
    match pending:
        case WaitingCount():
            at_most = "" if pending.exact else "at most "
            due = "" if (due_at := due_of(pending)) is None else f"; the next is due {output.time_text(due_at)}"
            log = f"{timer_log_name(topic)}; penstock timer list {topic} shows what waits"
            return [("waiting", f"{at_most}{pending.messages:,}{due}"), ("timer log", log)]
        case OpenTransactions():
            begun = "" if (oldest := _oldest(pending)) is None else f", the oldest begun {output.time_text(oldest)}"
            opened = f"{pending.open:,} with {pending.half_messages.get(topic, 0):,} messages{begun}"
            return [("open transactions", opened), ("not finished", pending.unfinished)]
        case None:
            return []


def pending_document(topic: str, pending: Pending) -> dict[str, object]:
    """The pending messages as JSON values for programs."""
    match pending:
        case WaitingCount():
            return {"waiting": {"messages": pending.messages, "exact": pending.exact, "next_due": due_of(pending)}}
        case OpenTransactions():
            messages = pending.half_messages.get(topic, 0)
            facts = {"open": pending.open, "messages": messages, "oldest": _oldest(pending), "not_finished": pending.unfinished}
            return {"transactions": facts}
        case None:
            return {}


def due_of(pending: WaitingCount) -> datetime | None:
    """When the next message is due; None: nothing waits, or it was not searched."""
    return None if pending.next_due_us is None else from_us(pending.next_due_us)


def _oldest(pending: OpenTransactions) -> datetime | None:
    return None if pending.oldest_ms is None else datetime.fromtimestamp(pending.oldest_ms / 1000, UTC)
