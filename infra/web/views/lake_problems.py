"""Problems beyond the groups, looked for less often: late timers, old transactions, syncs that stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from ....aio import Lake
from ...operating.transactions import age_of, rows_of
from ..faults import ErrorReport, PagePart
from .changes import known_records, stands_still
from .page import PageContext
from .timers import next_of
from .transactions import GROUPS_MAX

T = TypeVar("T")

EVERY_LOOKS = 15
"""The looks at the groups between two searches, which cost requests."""
TOPICS, TOPICS_NEAR = 3, 16
"""The watched topics, a dozen requests each: the fullest, and more where requests are free."""
OLD = timedelta(minutes=10)
"""The age from which an open transaction is old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTopic:
    """A topic whose delayed messages are late."""

    topic: str
    late: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OldTransactions:
    """A producer group with old open transactions."""

    producer_group: str
    transactions: int
    oldest: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledSync:
    """A sync with tables that stand still."""

    topic: str
    name: str
    tables: int
    """0: the sync's record cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeProblems:
    """All problems of a lake."""

    late: tuple[LateTopic, ...] = ()
    timer_topics: int = 0
    """Topics with waiting messages."""
    timer_topics_watched: int = 0
    """Watched ones of them."""
    old: tuple[OldTransactions, ...] = ()
    stopped: tuple[StalledSync, ...] = ()
    faults: Mapping[str, ErrorReport] | None = None


async def watched(context: PageContext) -> LakeProblems:
    """The problems. Failed reads are faults in it."""
    fresh_s = EVERY_LOOKS * context.source.refresh.total_seconds()

    async def look() -> LakeProblems:
        return await _watched(context)

    return await context.source.memo.get(("watched",), look, fresh_s=fresh_s, stale_s=fresh_s)


async def _watched(context: PageContext) -> LakeProblems:
    looked, now = await context.source.look(), context.now

    async def of(work: Callable[[Lake], Awaitable[tuple[T, ...]]]) -> PagePart[tuple[T, ...]]:
        return await context.part(work)

    counts = looked.seen.timers
    names = sorted((name for name, count in counts.items() if count), key=lambda name: -counts[name])
    watched = names[: TOPICS if context.source.is_thrifty else TOPICS_NEAR]
    late, old, stopped = await asyncio.gather(
        of(lambda lake: _late(lake, watched, now)), of(lambda lake: _old(lake, now)), of(lambda lake: _stopped(context, lake))
    )
    parts: dict[str, PagePart[tuple[object, ...]]] = {"delayed messages": late, "transactions": old, "syncs": stopped}  # type: ignore[dict-item]
    return LakeProblems(
        late=late.value or (),
        timer_topics=len(names),
        timer_topics_watched=len(watched),
        old=old.value or (),
        stopped=stopped.value or (),
        faults={name: part.fault for name, part in parts.items() if part.fault is not None},
    )


async def _late(lake: Lake, names: Sequence[str], now: datetime) -> tuple[LateTopic, ...]:
    found = await asyncio.gather(*(next_of(lake, name, now) for name in names))
    return tuple(
        LateTopic(topic=name, late=one.late)
        for name, one in zip(names, found, strict=True)
        if one is not None and one.late is not None
    )


async def _old(lake: Lake, now: datetime) -> tuple[OldTransactions, ...]:
    names: Sequence[str] = sorted(await lake.transactions.groups.groups())[:GROUPS_MAX]
    ages: dict[str, list[timedelta]] = {}
    for group, row in await rows_of(lake, names) if names else ():
        if row.is_open and (age := age_of(row, now)) >= OLD:
            ages.setdefault(group, []).append(age)
    return tuple(OldTransactions(producer_group=name, transactions=len(some), oldest=max(some)) for name, some in ages.items())


async def _stopped(context: PageContext, lake: Lake) -> tuple[StalledSync, ...]:
    records = await known_records(context, lake)
    return tuple(
        StalledSync(topic=topic, name=name, tables=0 if isinstance(one, Exception) else len(one.stopped))
        for (topic, name), one in records.items()
        if isinstance(one, Exception) or stands_still(one)
    )
