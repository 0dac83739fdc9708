"""Messages of a topic that are not in it yet: they wait for their delivery time, or for the outcome of their transaction."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TypeAlias

from ....aio import Lake
from ....coordinator.timers.cell.cell import timer_cells
from ....coordinator.timers.counting import WaitingCount, count_waiting
from ....coordinator.transactions.statistics import OpenTransactions, standing_of
from ....log import MessageType
from ....log.message.message import from_us
from ....log.paths import is_timer_log, timer_log_name
from ...console import output

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
    return standing_of((row for some in rows for row in some), topic=topic)


def pending_facts(topic: str, pending: Pending) -> list[tuple[str, object]]:
    """The pending messages as facts for people."""
    match pending:
        case WaitingCount():
            at_most = "" if pending.exact else "at most "
            due = "" if (due_at := _due(pending)) is None else f"; the next is due {output.time_text(due_at)}"
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
            return {"waiting": {"messages": pending.messages, "exact": pending.exact, "next_due": _due(pending)}}
        case OpenTransactions():
            messages = pending.half_messages.get(topic, 0)
            facts = {"open": pending.open, "messages": messages, "oldest": _oldest(pending), "not_finished": pending.unfinished}
            return {"transactions": facts}
        case None:
            return {}


def _due(pending: WaitingCount) -> datetime | None:
    return None if pending.next_due_us is None else from_us(pending.next_due_us)


def _oldest(pending: OpenTransactions) -> datetime | None:
    return None if pending.oldest_ms is None else datetime.fromtimestamp(pending.oldest_ms / 1000, UTC)
