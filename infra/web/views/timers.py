"""Delayed messages that wait, by topic, with late ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ...operating.timers import DelayedMessage, delayed_of, late_by
from ..faults import PagePart
from .page import NUMBER, PageContext, PageDefinition, PageRequest, Pagination, QueryParameter

TOPICS = 4
"""The topics on a page, some five requests each."""
SHOWN = 20
BODY_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTimer:
    """The first message that waits."""

    due: datetime
    late: timedelta | None
    """None: not late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTimersRow:
    """The timers of a topic."""

    topic: str
    waiting: int
    """The count, with recalled ones whose time is over."""
    next: PagePart[NextTimer | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedList:
    """The first messages of a topic that wait."""

    rows: tuple[DelayedMessage, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersPage:
    """The content of the page."""

    at: datetime
    waiting: int
    """The count over all topics."""
    span: Pagination
    topics: tuple[TopicTimersRow, ...]
    listed: PagePart[DelayedList] | None


async def gather(context: PageContext, request: PageRequest) -> TimersPage:
    looked, topic, now = await context.source.look(), request.text("topic"), context.now
    counts = looked.seen.timers
    names = sorted(counts, key=lambda name: (-counts[name], name))
    span = Pagination.of(len(names), request.number("page"), rows=TOPICS)

    async def of(name: str) -> TopicTimersRow:
        return TopicTimersRow(topic=name, waiting=counts[name], next=await context.part(lambda lake: next_of(lake, name, now)))

    listed = None if topic is None else await context.part(lambda lake: _listed(lake, topic, request.number("limit"), now))
    return TimersPage(
        at=looked.at,
        waiting=sum(counts.values()),
        span=span,
        topics=tuple(await asyncio.gather(*map(of, names[span.slice]))),
        listed=listed,
    )


async def next_of(lake: Lake, topic: str, now: datetime) -> NextTimer | None:
    found = await lake.waiting(topic, limit=1)
    return NextTimer(due=found[0].delivery_timestamp, late=late_by(found[0].delivery_timestamp, now)) if found else None


async def _listed(lake: Lake, topic: str, limit: int, now: datetime) -> DelayedList:
    found = await lake.waiting(topic, limit=limit + 1)
    return DelayedList(rows=tuple(delayed_of(one, now, body_bytes=BODY_BYTES) for one in found[:limit]), more=len(found) > limit)


def live(shown: TimersPage) -> dict[str, object]:
    return {"waiting": shown.waiting, "at": shown.at, **{f"waiting:{one.topic}": one.waiting for one in shown.topics}}


def _words(request: PageRequest) -> list[str]:
    topic = request.text("topic")
    return ["timer", "list"] if topic is None else ["timer", "list", topic, "--limit", str(request.number("limit"))]


PAGE = PageDefinition(
    name="timers",
    path="/timers",
    title="Delayed messages",
    about="The topics with delayed messages that wait, with the next due and whether it is late; and the first messages of one topic.",
    shows=TimersPage,
    gather=gather,
    answer=lambda shown: shown.listed,
    command=_words,
    parameters=(
        QueryParameter(name="topic", help="The topic whose first messages are listed."),
        QueryParameter(name="limit", help="The number of messages that are listed.", kind=int, default=SHOWN, least=1, most=200),
        NUMBER,
    ),
    menu="Timers",
    live=live,
)
