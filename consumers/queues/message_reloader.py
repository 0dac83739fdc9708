"""Reads messages again that left memory, or failed in an earlier owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...log.errors import DataDamaged, OffsetOutOfRange, PenstockError, RetryError, unforeseen
from ...log.filter.filters import Filter
from ...log.message.message import views
from ..feed.feed import Feed
from ..schedule.protocol import QueueSchedule

log = logging.getLogger("penstock.consumers")

_ROWS = 5_000
_TROUBLE_S = 0.2


class MessageReloader:
    """Reads one queue's messages that left memory, or failed in an earlier owner, one reading at a time."""

    def __init__(self, feed: Feed, *, group: str, topic: str, queue: int, epoch: int, moved: Callable[[], None]) -> None:
        """``moved`` is called when messages were read, or fell due."""
        self._feed = feed
        self._where = (group, topic, queue)
        self._epoch = epoch
        self._moved = moved
        self.task: asyncio.Task[None] | None = None

    def look(self, schedule: QueueSchedule, keep: Callable[[], Filter], now_ms: int) -> None:
        """``keep`` gives the group's filter. Raises the last reading's permanent error."""
        if self.task is not None:
            if not self.task.done():
                return
            self.task.result()
        start = schedule.blocked.reread_from(now_ms, schedule.next_fresh)
        missing = schedule.missing(now_ms)
        self.task = None
        if schedule.blocked.fell_due:
            self._moved()  # it may be in memory: no step has seen it, and nothing else reports it
        if start is not None or missing:
            self.task = asyncio.ensure_future(self._read(schedule, keep, start, missing[:_ROWS]))

    async def _read(self, schedule: QueueSchedule, keep: Callable[[], Filter], start: int | None, missing: list[int]) -> None:
        _, topic, queue = self._where
        try:
            if missing:
                rows = await self._feed.pick(queue, missing)
                schedule.reread(list(views(topic, rows, epoch=self._epoch)), 0, 0)
            if start is not None:
                limit = min(schedule.next_fresh, start + _ROWS)
                async for rows in self._feed.scan(queue, start, limit):
                    kept = keep().apply(rows, self._feed.schema)
                    schedule.reread(list(views(topic, kept, epoch=self._epoch)), start, start + rows.num_rows)
                    start += rows.num_rows
        except OffsetOutOfRange:
            earliest = await self._feed.kept_from(queue, 0)
            gone = "group %s, %s queue %d: messages below offset %d that were to be run again are gone by retention"
            log.error(gone, *self._where, earliest)  # noqa: TRY400 - it says all
            schedule.expired(earliest)
        except (RetryError, DataDamaged) as error:
            log.warning("group %s, %s queue %d: cannot read again: %s", *self._where, error)
            await asyncio.sleep(_TROUBLE_S)
        except PenstockError:
            raise
        except Exception as error:
            raise unforeseen(error, operation="consume") from error
        finally:
            self._moved()
