"""The looks of `penstock top`, and what two of them tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ....aio import Lake
from ....coordinator.operators.lake_view import GroupSeen, Unread
from ....log import PenstockError, Reader, RetryError, TopicDeleted, TopicNotFound
from ...console import output
from ...lake_metrics import view_of

if TYPE_CHECKING:
    from rich.table import Table

_AT_ONCE = 8
_TOPICS_MAX = 200
"""The most topics that a look follows: each is a request or two."""
_ROWS_MAX = 30
"""The most rows of a table that is drawn."""


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """The messages of a topic."""

    kept: int
    stored: int
    """The number of messages ever stored, which the rate follows from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A lake at one moment."""

    at_s: float
    """The moment by the monotonic clock."""
    topics: Mapping[str, TopicSeen]
    topics_left_out: int = 0
    groups: Sequence[GroupSeen] = ()
    timers: Mapping[str, int]
    unread: Sequence[str] = ()
    """What could not be read, and why."""


class Looks:
    """The looks of one process; what one has learnt makes the next one cheap."""

    def __init__(self, lake: Lake, interval: timedelta) -> None:
        self._lake = lake
        self._view = view_of(lake, precise=interval)

    async def look(self) -> Look:
        """Look once. Raises what makes all of it impossible; what of it cannot be read is named."""
        names = list(await self._lake.topics(damaged="skip"))
        limit = asyncio.Semaphore(_AT_ONCE)
        topics: dict[str, TopicSeen] = {}
        unread: list[str] = []

        async def follow(name: str) -> None:
            async with limit:
                try:
                    offsets = await Reader(await self._lake.topic(name)).offsets()
                except (TopicNotFound, TopicDeleted):
                    return
                except RetryError:
                    raise
                except PenstockError as error:
                    unread.append(f"{name}: {error.message}")
                    return
                stored = sum(following for _, following in offsets.values())
                topics[name] = TopicSeen(stored - sum(earliest for earliest, _ in offsets.values()), stored)

        await asyncio.gather(*map(follow, names[:_TOPICS_MAX]))

        def failed(kind: Unread, name: str, error: PenstockError) -> None:
            unread.append(f"{kind} {name}: {error.message}")

        seen = await self._view.look(failed=failed)
        return Look(
            at_s=self._lake.runtime.clock.monotonic_s(),
            topics=dict(sorted(topics.items())),
            topics_left_out=max(0, len(names) - _TOPICS_MAX),
            groups=seen.groups,
            timers=seen.timers,
            unread=tuple(unread),
        )


def settled(group: GroupSeen) -> int:
    """The number of messages that a group is done with, of those ever stored: what is neither stored yet nor lags."""
    return sum((one.standing.next_offset or 0) - one.standing.lag for one in group.queues)


def documents(now: Look, before: Look | None) -> Iterator[dict[str, object]]:
    """A look as JSON values, one document for each topic and each group on a topic."""
    for name, topic in now.topics.items():
        rate = _topic_rate(name, now, before)
        yield {"topic": name, "messages": topic.kept, "stored_per_s": rate, "waiting": now.timers.get(name, 0)}
    for group in _by_lag(now.groups):
        yield {
            "group": group.group,
            "topic": group.topic,
            "lag": _lag(group),
            "lag_time_s": _age_s(group),
            "settled_per_s": _group_rate(group, now, before),
            "parked": sum(one.standing.parked for one in group.queues),
            "blocked": sum(one.standing.blocked for one in group.queues),
            "consumers": group.consumers,
            "queues": len(group.queues),
            "queues_owned": group.owned,
        }
    if now.unread:
        yield {"unread": list(now.unread)}


def drawn(now: Look, before: Look | None) -> list[Table | str]:
    """A look for people."""
    topics = [
        (name, one.kept, _shown(_topic_rate(name, now, before)), now.timers.get(name, 0) or None)
        for name, one in sorted(now.topics.items(), key=lambda item: (-(_topic_rate(item[0], now, before) or 0), item[0]))
    ]
    groups = [
        (
            one.group,
            one.topic,
            _lag(one),
            _age(one),
            _shown(_group_rate(one, now, before)),
            sum(queue.standing.parked for queue in one.queues),
            sum(queue.standing.blocked for queue in one.queues),
            one.consumers,
            f"{one.owned:,} of {len(one.queues):,}",
        )
        for one in _by_lag(now.groups)
    ]
    columns = ("group", "topic", "lag", "age", "settled/s", "parked", "blocked", "consumers", "queues owned")
    return [
        output.grid(("topic", "messages", "stored/s", "waiting"), topics[:_ROWS_MAX]),
        _rest(len(topics) + now.topics_left_out, "topics"),
        output.grid(columns, groups[:_ROWS_MAX]),
        _rest(len(groups), "groups"),
        *(f"Could not be read: {output.printable(one)}" for one in now.unread),
    ]


def _rest(count: int, what: str) -> str:
    return f"… and {count - _ROWS_MAX:,} more {what}\n" if count > _ROWS_MAX else ""


def _by_lag(groups: Sequence[GroupSeen]) -> list[GroupSeen]:
    return sorted(groups, key=lambda one: (-_lag(one), one.group, one.topic))


def _lag(group: GroupSeen) -> int:
    return sum(one.standing.lag for one in group.queues)


def _age_s(group: GroupSeen) -> float | None:
    """The age of the oldest message that is not settled; None where it is not known yet."""
    known = [one.lag_ms for one in group.queues if one.lag_ms is not None]
    return max(known) / 1000 if known else None


def _age(group: GroupSeen) -> timedelta | None:
    age_s = _age_s(group)
    return None if age_s is None else timedelta(seconds=int(age_s) if age_s >= 1 else age_s)


def _topic_rate(name: str, now: Look, before: Look | None) -> float | None:
    was = None if before is None else before.topics.get(name)
    return None if before is None or was is None else _rate(now.topics[name].stored - was.stored, now.at_s - before.at_s)


def _group_rate(group: GroupSeen, now: Look, before: Look | None) -> float | None:
    if before is None:
        return None
    was = next((one for one in before.groups if (one.group, one.topic) == (group.group, group.topic)), None)
    return None if was is None else _rate(settled(group) - settled(was), now.at_s - before.at_s)


def _rate(count: int, seconds: float) -> float | None:
    """The rate; None where there is none, as after a reset or in a topic that was made anew."""
    return None if count < 0 or seconds <= 0 else round(count / seconds, 1)


def _shown(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:,.1f}" if rate < 10 else f"{rate:,.0f}"
