"""Change data: the lake's captures and syncs, with stalled tables. Neither a database nor a target is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ....aio import Lake
from ....cdc.capture.state import SourceStateStore, name_of
from ....cdc.debezium import EngineStateStore
from ....cdc.events.table_types import CAPTURES
from ....cdc.mongodb.state import MongoStateStore
from ....cdc.postgres.state import PostgresStateStore, slot_of
from ....cdc.sync.record import SyncRecord, read_records, sync_group
from ....coordinator.cells.cells import StoredCell
from ....coordinator.cells.keys import role_key, worker_of
from ....coordinator.queues.codec import decode_cell
from ....coordinator.workers.liveness import WorkerState
from ....log.errors import OffsetOutOfRange, PenstockError, TopicDeleted, TopicNotFound
from ....log.message.message import from_ms
from ....log.paths import topic_name
from ....log.read.reader import Reader
from ..faults import ErrorReport, PagePart
from ..lakes.source import LakeSnapshot
from .page import FILTER, NUMBER, PageContext, PageDefinition, PageRequest, Pagination

_STORES: Mapping[str, type[SourceStateStore[Any]]] = {one.kind: one for one in (EngineStateStore, MongoStateStore)}
SYNCS_SHOWN = 6
"""The syncs on a page, two or three requests each."""
CAPTURES_SHOWN = 10
TABLES_SHOWN = 100
TIMES_KEPT_S = 3600.0
STOPS_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledTableRow:
    """A table that stands still at an event of one queue."""

    table: str
    queue: int
    offset: int
    reason: str
    since: datetime | None
    """The event's store time; None: not kept, or not looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTableRow:
    """A table of a sync that goes on."""

    table: str
    folder: str
    commits: int
    """The number of the sync's last commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncDetails:
    """A sync by its record, which its driver wrote last."""

    topic: str
    name: str
    into: str
    state: str
    """runs, silent, does not run; its topic is gone, or was made anew."""
    lag: int | None
    """Unapplied events, without stalled tables; None: unknown, as of a deleted topic."""
    lag_time: timedelta | None
    """The age of the oldest unapplied event."""
    chosen: tuple[str, ...] | None
    """None: all."""
    tables_total: int
    tables: tuple[SyncTableRow, ...]
    stopped_total: int
    stopped: tuple[StalledTableRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRow:
    """A sync by its name; its record may be unreadable."""

    topic: str
    name: str
    sync: PagePart[SyncDetails]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureDetails:
    """A capture of a database."""

    connector: str
    """postgresql, mariadb, mysql."""
    source: str
    """The database of a PostgreSQL; the server's identity of another."""
    follows: str | None
    """PostgreSQL's publication, or the starting place in the binlog; None: not begun."""
    tables: int | None
    """Tables with a whole or unwanted snapshot; None: not counted."""
    snapshot: str | None
    """The table under snapshot."""
    waiting: int
    """Tables with a later snapshot."""
    last_stored: datetime | None
    """The time of the topic's last message; None: none, or the topic is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRow:
    """A capture by its topic and its replication slot or name."""

    topic: str
    name: str
    capture: PagePart[CaptureDetails]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncList:
    """The syncs of a page, stalled ones first."""

    standing_still: int
    """Syncs with stalled tables."""
    span: Pagination
    rows: tuple[SyncRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureList:
    """The captures of a page."""

    total: int
    rows: tuple[CaptureRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPage:
    """The content of the page."""

    at: datetime
    syncs: PagePart[SyncList]
    captures: PagePart[CaptureList]


Records = Mapping[tuple[str, str], SyncRecord | PenstockError]


async def gather(context: PageContext, request: PageRequest) -> ChangesPage:
    looked = await context.source.look()
    wanted = (request.text("filter") or "").lower()

    async def syncs(lake: Lake) -> SyncList:
        records = await known_records(context, lake)
        chosen = sorted_syncs({place: one for place, one in records.items() if any(wanted in text.lower() for text in place)})
        span = Pagination.of(len(chosen), request.number("page"), rows=SYNCS_SHOWN)

        async def row(place: tuple[str, str], record: SyncRecord | PenstockError) -> SyncRow:
            if isinstance(record, PenstockError):
                return SyncRow(topic=place[0], name=place[1], sync=PagePart(fault=ErrorReport.of(record)))
            sync = await context.part(lambda lake: _sync(context, lake, looked, *place, record))
            return SyncRow(topic=place[0], name=place[1], sync=sync)

        rows = await asyncio.gather(*(row(place, record) for place, record in chosen[span.slice]))
        return SyncList(standing_still=sum(map(stands_still, records.values())), span=span, rows=tuple(rows))

    return ChangesPage(
        at=looked.at, syncs=await context.part(syncs), captures=await context.part(lambda lake: _captures(context, lake))
    )


async def known_records(context: PageContext, lake: Lake) -> Records:
    """All syncs' records. Unchanged ones are not read again."""

    async def nothing() -> dict[str, StoredCell | PenstockError]:
        return {}

    before = await context.source.memo.get(("records of syncs",), nothing, fresh_s=float("inf"))
    return await read_records(lake.coordination.cells, before)


def stands_still(record: SyncRecord | PenstockError) -> bool:
    return isinstance(record, SyncRecord) and bool(record.stopped)


def sorted_syncs(records: Records) -> list[tuple[tuple[str, str], SyncRecord | PenstockError]]:
    """Syncs in order: unreadable ones and those that stand still, then by topic and name."""
    return sorted(records.items(), key=lambda item: (isinstance(item[1], SyncRecord) and not item[1].stopped, item[0]))


async def _sync(context: PageContext, lake: Lake, looked: LakeSnapshot, topic: str, name: str, record: SyncRecord) -> SyncDetails:
    stopped = list(stops_of(record))
    state = await _state(lake, looked, topic, name)
    lag, lag_time = progress_of(looked, topic, name)
    try:
        opened = await lake.topic(topic)
    except (TopicNotFound, TopicDeleted):
        state = "its topic is gone"
    else:
        if opened.life != record.life:
            state = "its topic was made anew"
        else:
            stopped = await _dated(context, Reader(opened), record.life, stopped)
    return SyncDetails(
        topic=topic,
        name=name,
        into=record.into,
        state=state,
        lag=lag,
        lag_time=lag_time,
        chosen=None if record.chosen is None else tuple(sorted(record.chosen)),
        tables_total=len(record.tables),
        tables=tables_of(record),
        stopped_total=len(record.stopped),
        stopped=tuple(stopped[:STOPS_SHOWN]),
    )


def stops_of(record: SyncRecord) -> Iterator[StalledTableRow]:
    for table, stops in sorted(record.stopped.items()):
        for one in stops:
            yield StalledTableRow(table=table, queue=one.queue, offset=one.offset, reason=one.reason, since=None)


def tables_of(record: SyncRecord) -> tuple[SyncTableRow, ...]:
    return tuple(
        SyncTableRow(
            table=record.tables[folder].names[0],
            folder=folder,
            commits=record.progress[folder].commits if folder in record.progress else 0,
        )
        for folder in sorted(record.tables)[:TABLES_SHOWN]
    )


def progress_of(looked: LakeSnapshot, topic: str, name: str) -> tuple[int | None, timedelta | None]:
    mine = [one for one in looked.group(sync_group(name)) if one.topic == topic]
    if not mine:
        return None, None
    ages = [queue.lag_ms for one in mine for queue in one.queues if queue.lag_ms is not None]
    lag = sum(queue.progress.lag for one in mine for queue in one.queues)
    return lag, timedelta(milliseconds=max(ages)) if ages and lag else None


async def _state(lake: Lake, looked: LakeSnapshot, topic: str, name: str) -> str:
    key = role_key(topic, sync_group(name))
    stored = await lake.coordination.cells.read(key)
    owner = "" if stored is None else decode_cell(stored.data, where=key).owner
    return driven(looked, owner)


def driven(looked: LakeSnapshot, owner: str) -> str:
    states = {one.worker: one.state for one in looked.seen.workers}
    match states.get(worker_of(owner)) if owner else None:
        case WorkerState.LIVES:
            return "runs"
        case WorkerState.SILENT:
            return "silent"
    return "does not run"


async def _dated(context: PageContext, reader: Reader, life: int, stopped: Sequence[StalledTableRow]) -> list[StalledTableRow]:
    """The events with their times, of each queue the first's."""
    first: dict[int, int] = {}
    for one in stopped:
        if one.queue < reader.queues:
            first[one.queue] = min(one.offset, first.get(one.queue, one.offset))
    if not first:
        return list(stopped)

    async def read() -> dict[int, datetime]:
        try:
            return await reader.stored_at(first)
        except OffsetOutOfRange:
            return {}

    key = ("times of events", reader.topic, life, *sorted(first.items()))
    times = await context.source.memo.get(key, read, fresh_s=TIMES_KEPT_S)
    return [replace(one, since=times.get(one.queue)) if first.get(one.queue) == one.offset else one for one in stopped]


async def _captures(context: PageContext, lake: Lake) -> CaptureList:
    keys = sorted(one.key for one in await lake.store.list(CAPTURES))
    found = [(key, name) for key in keys if (name := slot_of(key) or name_of(key)) is not None]

    async def row(key: str, name: str) -> CaptureRow:
        topic = topic_name(key.removeprefix(CAPTURES).partition("/")[0])
        return CaptureRow(topic=topic, name=name, capture=await context.part(lambda lake: _capture(lake, topic, key)))

    rows = await asyncio.gather(*(row(*one) for one in found[:CAPTURES_SHOWN]))
    return CaptureList(total=len(found), rows=tuple(rows))


async def _capture(lake: Lake, topic: str, key: str) -> CaptureDetails:
    data = (await lake.store.get(key)).data
    last_ms = 0
    capture = capture_of(key, data)
    try:
        opened = await lake.topic(topic)
        await opened.tail.catch_up()
        last_ms = opened.tail.state.store_time_ms
    except (TopicNotFound, TopicDeleted):
        pass  # the capture's state is left
    return replace(capture, last_stored=from_ms(last_ms) if last_ms else None)


def capture_of(key: str, data: bytes) -> CaptureDetails:
    """A capture by its state. Raises `DataDamaged`, `NewerFormatError`."""
    if slot_of(key) is not None:
        state = PostgresStateStore.parse(data, key)
        return CaptureDetails(
            connector="postgresql",
            source=state.database,
            follows=state.publication,
            tables=len(state.done),
            snapshot=None if state.chunk is None else state.chunk.table,
            waiting=0,
            last_stored=None,
        )
    kept = _STORES[key.split("/")[-3]].parse(data, key)
    pending = tuple(dict.fromkeys((*(() if kept.chunk is None else (kept.chunk.table,)), *kept.pending)))
    return CaptureDetails(
        connector=kept.connector,
        source=f"server {kept.server}",
        follows=kept.place,
        tables=None,
        snapshot=pending[0] if pending else None,
        waiting=max(len(pending) - 1, 0),
        last_stored=None,
    )


def live(shown: ChangesPage) -> dict[str, object]:
    found: dict[str, object] = {"at": shown.at}
    if shown.syncs.value is not None:
        found["standing_still"] = shown.syncs.value.standing_still
        for row in shown.syncs.value.rows:
            if row.sync.value is not None:
                at = f"{row.topic}:{row.name}"
                found |= {
                    f"lag:{at}": row.sync.value.lag,
                    f"lag_time:{at}": row.sync.value.lag_time,
                    f"state:{at}": row.sync.value.state,
                }
    return found


PAGE = PageDefinition(
    name="changes",
    path="/changes",
    title="Change data",
    about="Captures and syncs: who runs, how far each sync is behind, and the events at which tables stand still; 6 syncs a page.",
    shows=ChangesPage,
    gather=gather,
    command=lambda request: ["group", "lag"],
    parameters=(FILTER, NUMBER),
    menu="Change data",
    live=live,
)
