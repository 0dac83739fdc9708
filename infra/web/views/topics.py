"""The list of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....coordinator.operators.lake_view import GroupTopic
from ....log.errors import TopicDeleted, TopicNotFound
from ....log.message.message import from_ms
from ....log.paths import is_timer_log
from ....log.read.reader import Reader
from ..faults import PagePart
from ..lakes.source import LakeSnapshot
from .page import FILTER, NUMBER, PageContext, PageDefinition, PageRequest, Pagination
from .rows import stored_per_second

_AT_ONCE = 8
_GONE = {TopicNotFound.kind, TopicDeleted.kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetails:
    """The read facts of a topic."""

    message_type: str
    is_typed: bool
    queues: int
    messages: int
    retention: timedelta | None
    """None: for ever."""
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic in the list."""

    topic: str
    facts: PagePart[TopicDetails]
    groups: int
    lag: int
    """Unsettled messages of all its groups."""
    waiting_timers: int
    stored_per_second: float | None
    """The rate since the look before; None: unknown, as of a topic without groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPage:
    """One page of the list."""

    at: datetime
    span: Pagination
    rows: tuple[TopicRow, ...]


async def gather(context: PageContext, request: PageRequest) -> TopicsPage:
    looked = await context.source.look()
    wanted = (request.text("filter") or "").lower()
    names = [name for name in looked.topics if not is_timer_log(name) and wanted in name.lower()]
    span = Pagination.of(len(names), request.number("page"))
    facts = await _all_details(context, looked, names[span.slice])
    rates = stored_per_second(looked)
    rows = (_row(looked, name, one, rates.get(name)) for name, one in facts.items())
    return TopicsPage(at=looked.at, span=span, rows=tuple(rows))


async def _all_details(context: PageContext, looked: LakeSnapshot, names: Sequence[str]) -> dict[str, PagePart[TopicDetails]]:
    """The facts of topics, without deleted ones, whose folders stay until they are collected."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(name: str) -> PagePart[TopicDetails]:
        if (seen := looked.seen.topics.get(name)) is not None:
            return PagePart(value=_details_of(seen))
        async with limit:
            return await context.part(lambda lake: _details(lake, name))

    found = await asyncio.gather(*map(read, names))
    return {name: one for name, one in zip(names, found, strict=True) if one.fault is None or one.fault.kind not in _GONE}


async def _details(lake: Lake, name: str) -> TopicDetails:
    topic = await lake.topic(name)
    offsets = await Reader(topic).offsets()
    return _details_of(GroupTopic(settings=topic.settings, created_ms=topic.record.created_ms, offsets=offsets))


def _details_of(seen: GroupTopic) -> TopicDetails:
    return TopicDetails(
        message_type=str(seen.settings.message_type),
        is_typed=seen.settings.schema is not None,
        queues=seen.settings.queues,
        messages=sum(following - earliest for earliest, following in seen.offsets.values()),
        retention=seen.settings.retention,
        created=from_ms(seen.created_ms),
    )


def _row(looked: LakeSnapshot, name: str, facts: PagePart[TopicDetails], rate: float | None) -> TopicRow:
    groups = looked.topic(name)
    return TopicRow(
        topic=name,
        facts=facts,
        groups=len(groups),
        lag=sum(queue.progress.lag for group in groups for queue in group.queues),
        waiting_timers=looked.seen.timers.get(name, 0),
        stored_per_second=rate,
    )


def live(shown: TopicsPage) -> dict[str, object]:
    found: dict[str, object] = {}
    for row in shown.rows:
        found |= {f"lag:{row.topic}": row.lag, f"stored:{row.topic}": row.stored_per_second}
        if row.facts.value is not None:
            found[f"messages:{row.topic}"] = row.facts.value.messages
    return found


PAGE = PageDefinition(
    name="topics",
    path="/topics",
    title="Topics",
    about="The topics with their type, size, retention and readers, 50 a page.",
    shows=TopicsPage,
    gather=gather,
    command=lambda request: ["topic", "list"],
    parameters=(FILTER, NUMBER),
    menu="Topics",
    live=live,
)
