"""The maintenance of topics as a role: publish, compact, retain, trim and collect, sparing what groups need."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from ..log.errors import DataDamaged, NewerFormatError, PenstockError
from ..log.format.header import Action
from ..log.lake import LogLake
from ..log.paths import TOPICS, TopicPaths, is_timer_log, topic_name, topic_of
from ..log.runtime.backoff import pause
from ..log.table.maintenance import MaintenanceOptions, TopicMaintenance
from ..log.table.retention import GUARDED
from ..log.topic.records import read_record
from ..log.topic.settings import RETENTION_MAX, TopicRecord
from ..log.topic.timer_log import end_orphan
from .cells.cells import Cells
from .registry.groups import GroupRegistry
from .registry.retention import retention_guards
from .registry.spill_objects import collect_spills
from .timers.orphans import remove_orphans, still_needed
from .transactions.held_uploads import held_jobs
from .workers.liveness import forget_fenced

OnStep: TypeAlias = Callable[[str, str, object], None]
"""A callback with topic, step, and result or error."""

_LOOK_S = 30.0
"""The interval between checks for an altered or deleted topic."""
_FORGET_S = 24 * 3600.0
"""The interval between removals of dead heartbeats."""
_TEND_S = 3600.0
"""The interval of the clean-up after timers."""
_DELETED_S = 3600.0
"""The interval of the clean-up after deleted topics."""


class LakeMaintenance:
    """Maintains topics of one lake. Any number of processes may do so at once; one is enough."""

    def __init__(
        self,
        lake: LogLake,
        cells: Cells,
        groups: GroupRegistry,
        *,
        options: MaintenanceOptions | None = None,
        on_step: OnStep = lambda topic, step, result: None,
        on_look: Callable[[Collection[str]], None] = lambda topics: None,
    ) -> None:
        self._lake = lake
        self._on_look = on_look
        self._cells = cells
        self._groups = groups
        self._options = options or MaintenanceOptions()
        self._on_step = on_step
        self._forget_s = -math.inf
        self._tended_s: dict[str, float] = {}
        self._collected_s: dict[str, float] = {}

    async def topics(self) -> Collection[str]:
        """All topics, deleted ones included. Unreadable topics are reported. ``on_look`` gets the living ones."""
        found, living = [], []
        for folder in await self._lake.store.list_folders(TOPICS):
            try:
                if (record := await self._record(name := topic_name(folder))) is not None:
                    found.append(name)
                    living += [] if record.deleted else [name]
            except (DataDamaged, NewerFormatError) as error:
                self._on_step(folder, "look", error)
        self._on_look(living)
        return found

    async def once(self, name: str) -> None:
        await self._forget_workers(name)
        await self._tend_timers(name)
        await self._collect_spills(name)
        record = await self._record(name)
        if record is not None:
            await self._maintenance(name, record).run_once()

    async def play(self, name: str, stop: asyncio.Event) -> None:
        """Maintain a topic until ``stop`` is set, finishing the step under way. Store faults are reported."""
        running: _Running | None = None
        try:
            while not stop.is_set():
                await self._forget_workers(name)
                await self._tend_timers(name)
                await self._collect_spills(name)
                try:
                    record = await self._record(name)
                except PenstockError as error:
                    self._on_step(name, "look", error)
                else:
                    if running is not None and running.record != record:
                        await running.end()
                        running = None
                    if running is None and record is not None:
                        running = _Running(record, self._maintenance(name, record))
                await pause(stop, _LOOK_S)
        finally:
            if running is not None:
                await running.end()

    async def _forget_workers(self, name: str) -> None:
        now_s = self._lake.runtime.clock.monotonic_s()
        if now_s < self._forget_s:
            return
        self._forget_s = now_s + _FORGET_S
        try:
            await forget_fenced(self._cells, self._lake.runtime)
        except PenstockError as error:
            self._on_step(name, "forget workers", error)

    async def _collect_spills(self, name: str) -> None:
        now_s = self._lake.runtime.clock.monotonic_s()
        if now_s < self._collected_s.get(name, -math.inf):
            return
        self._collected_s[name] = now_s + _FORGET_S
        try:
            await collect_spills(self._lake.store, self._cells, self._groups, name)
        except PenstockError as error:
            self._on_step(name, "collect what waited", error)

    async def _tend_timers(self, name: str) -> None:
        now_s = self._lake.runtime.clock.monotonic_s()
        if not is_timer_log(name) or now_s < self._tended_s.get(name, -math.inf):
            return
        self._tended_s[name] = now_s + _TEND_S
        try:
            await end_orphan(self._lake.store, self._lake.runtime, topic_of(name))
            if removed := await remove_orphans(self._lake, name):
                self._on_step(name, "remove runs", removed)
        except PenstockError as error:
            self._on_step(name, "remove runs", error)

    async def _record(self, name: str) -> TopicRecord | None:
        found = await read_record(self._lake.store, TopicPaths.of(name))
        return None if found is None else found[0]

    def _maintenance(self, name: str, record: TopicRecord) -> TopicMaintenance:
        async def append(actions: Sequence[Action]) -> None:
            if not record.deleted:  # no entry follows the one that deleted it, and nothing can be linked any more
                await (await self._lake.topic(name, writable=True)).act(*actions)

        async def of_groups() -> Mapping[int, int]:
            return await retention_guards(self._cells, self._groups, name)

        async def of_timers() -> Mapping[int, int]:
            return await still_needed(self._lake, name, record)

        timed = is_timer_log(name)

        return TopicMaintenance(
            self._lake.store,
            TopicPaths.of(name),
            record,
            self._lake.runtime,
            append,
            self._options,
            retention_guards=of_timers if timed else of_groups,
            guarded=RETENTION_MAX if timed else GUARDED,
            held_jobs=lambda jobs: held_jobs(self._cells, jobs),
            iceberg=record.settings.iceberg,
            on_step=lambda step, result: self._on_step(name, step, result),
        )


class _Running:
    def __init__(self, record: TopicRecord, maintenance: TopicMaintenance) -> None:
        self.record = record
        self._stop = asyncio.Event()
        run: Awaitable[None] = _rounds(maintenance, self._stop) if record.deleted else maintenance.run_forever(self._stop)
        self._task = asyncio.ensure_future(run)

    async def end(self) -> None:
        """End the maintenance. Raises its error, which is a bug."""
        self._stop.set()
        await self._task


async def _rounds(maintenance: TopicMaintenance, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await maintenance.run_once()
        await pause(stop, _DELETED_S)
