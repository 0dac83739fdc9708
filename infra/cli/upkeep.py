"""The maintenance of a lake's topics: of those that are there, those that come, and what deleted ones left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeAlias

from ...log import Lake, PenstockError, TopicRecord
from ...log.header import Action
from ...log.paths import TopicPaths
from ...log.stores import probe_conditional_writes
from ...log.table.maintenance import Maintenance, MaintenanceOptions
from .stored import stored

Report: TypeAlias = Callable[[str, str, object], None]
"""Called with topic, step, and the step's result or error."""

_LOOK = timedelta(seconds=30)
"""Between looks for topics that came, went or were altered."""
_DELETED = timedelta(hours=1)
"""Between rounds over what a deleted topic left."""


async def maintain_once(lake: Lake, names: Sequence[str], report: Report) -> None:
    """Every step of every topic once."""
    await probe_conditional_writes(lake.store, lake.runtime)
    for name, record in (await _look(lake, names, report)).items():
        await _maintenance(lake, name, record, report, MaintenanceOptions()).run_once()


async def maintain_forever(
    lake: Lake, names: Sequence[str], report: Report, stop: asyncio.Event, *, publish_interval: timedelta
) -> None:
    """Maintain until ``stop`` is set; steps under way are ended first. Faults of the store are reported and outlived."""
    await probe_conditional_writes(lake.store, lake.runtime)
    options = MaintenanceOptions(publish_interval=publish_interval)
    running: dict[str, _Running] = {}
    try:
        found = await _look(lake, names, report)
        while not stop.is_set():
            for name, record in found.items():
                if name in running and running[name].record == record:
                    continue
                if name in running:
                    await running.pop(name).end()
                running[name] = _Running(record, _maintenance(lake, name, record, report, options))
            await _pause(stop, _LOOK)
            try:
                found = await _look(lake, names, report)
            except PenstockError as error:
                report("-", "look", error)
    finally:
        await asyncio.gather(*(one.end() for one in running.values()))


async def _look(lake: Lake, names: Sequence[str], report: Report) -> dict[str, TopicRecord]:
    """The topics to maintain; those that cannot be read are reported, and keep no other from its maintenance."""
    found = await stored(lake.store, names, deleted=True)
    for name, error in found.unreadable.items():
        report(name, "look", error)
    return found.records


class _Running:
    """One topic's maintenance, in the background."""

    def __init__(self, record: TopicRecord, maintenance: Maintenance) -> None:
        self.record = record
        self._stop = asyncio.Event()
        run = _rounds(maintenance, self._stop) if record.deleted else maintenance.run_forever(self._stop)
        self._task = asyncio.ensure_future(run)

    async def end(self) -> None:
        """End it in order. Raises what ended it before, which is a bug."""
        self._stop.set()
        await self._task


def _maintenance(lake: Lake, name: str, record: TopicRecord, report: Report, options: MaintenanceOptions) -> Maintenance:
    async def append(actions: Sequence[Action]) -> None:
        if not record.deleted:  # nothing follows the entry that deleted it, and nothing can be linked any more
            await (await lake.topic(name, writable=True)).act(*actions)

    def on_step(step: str, result: object) -> None:
        report(name, step, result)

    return Maintenance(lake.store, TopicPaths.of(name), record, lake.runtime, append, options, on_step=on_step)


async def _rounds(maintenance: Maintenance, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await maintenance.run_once()
        await _pause(stop, _DELETED)


async def _pause(stop: asyncio.Event, time: timedelta) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(time.total_seconds()):  # `wait_for` of Python 3.11 may lose a cancellation
            await stop.wait()
