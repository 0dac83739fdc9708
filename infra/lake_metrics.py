"""Metrics of all consumer groups and timers of a lake, owned or not, served from the last look."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from datetime import timedelta

from ..aio import Lake
from ..consumers.statistics import REFUSED, lake_samples
from ..coordinator.maintenance import OnStep
from ..coordinator.operators.lake_view import LakeOverview, LakeView, UnreadKind
from ..coordinator.operators.metrics import LOOK_AGE, LOOK_TIME, UNREAD
from ..coordinator.timers.cell.cell import timer_cells
from ..coordinator.timers.waiting_count import sent_and_waiting
from ..log.errors import PenstockError, unforeseen
from ..log.metrics import Sample
from ..log.runtime.backoff import pause

_LOOKS_KEPT = 3
"""The intervals after which the last look's values are not shown any more."""


def view_of(lake: Lake, *, precise: timedelta, only: Collection[str] = (), lists: bool = False) -> LakeView:
    """The looks at a lake, with its waiting timers counted. ``lists``: see `LakeView`."""
    timers = timer_cells(lake)
    return LakeView(
        lake,
        lake.coordination.cells,
        waiting=lambda topic: sent_and_waiting(lake, timers, topic),
        only=only,
        precise=precise,
        lists=lists,
    )


class LakeMetrics:
    """Looks at a lake, and shows what the last look found. A scrape makes no request."""

    def __init__(self, lake: Lake, *, only: Collection[str] = (), interval: timedelta) -> None:
        self._lake = lake
        self._clock = lake.runtime.clock
        self._interval_s = interval.total_seconds()
        self._view = view_of(lake, precise=interval, only=only)
        self._seen: LakeOverview | None = None

    def samples(self) -> Iterator[Sample]:
        """Any thread may ask."""
        refused_s = max(self._lake.refusals.refusing_s, self._lake.coordination.refusals.refusing_s)
        yield Sample(REFUSED, (), refused_s)
        for (kind, name), times in self._view.unread.items():
            yield Sample(UNREAD, (kind, name), times)
        if (seen := self._seen) is None:
            return
        age_s = self._clock.monotonic_s() - seen.ended_s
        yield Sample(LOOK_AGE, (), age_s)
        yield Sample(LOOK_TIME, (), seen.took_s)
        if age_s <= _LOOKS_KEPT * max(self._interval_s, seen.took_s):
            yield from lake_samples(seen)

    async def look(self, report: OnStep) -> None:
        """Look once. What cannot be read is reported, and left out."""

        def failed(kind: UnreadKind, name: str, error: PenstockError) -> None:
            report(name or "-", f"metrics of {kind}", error)

        try:
            self._seen = await self._view.look(failed=failed)
        except PenstockError:
            return  # reported, and what the last look found is shown for a while
        except Exception as error:  # noqa: BLE001 - whoever maintains the lake goes on without metrics
            report("-", "metrics", unforeseen(error, operation="look at all groups"))

    async def run(self, stop: asyncio.Event, report: OnStep) -> None:
        """Look until ``stop`` is set: one look at a time, and at most half of the time."""
        while not stop.is_set():
            began_s = self._clock.monotonic_s()
            await self.look(report)
            took_s = self._clock.monotonic_s() - began_s
            await pause(stop, max(self._interval_s - took_s, took_s))
