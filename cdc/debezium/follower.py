"""One life of the engine: records go into the topic, and the place to go on into the state."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...log.errors import PenstockError
from ..capture.errors import SourceUnavailable
from ..capture.follower import SourceFollower
from ..capture.options import SourceCaptureOptions
from ..capture.progress import ProgressListener
from ..capture.record_sender import Boundary
from ..capture.records import ChangeRecord
from ..capture.resources import CaptureResources
from .configuration import Connector
from .effects import Effects
from .engine import EmbeddedEngine, RecordBatch
from .history import SchemaHistory
from .memory import BurstDetector
from .positions import between, file_number
from .records import KeylessTable, heartbeat_ms, record_of
from .state import EngineState, EngineStateStore

log = logging.getLogger("penstock.cdc")

_LOOK_S, _LOOK_FOR_END_S = 1.0, 0.1
_IDLE_S, _BUSY_S = 0.25, 0.01
_SILENT_S, _START_S = 20.0, 600.0
"""The silence of a connector, which sends heartbeats, after which it counts as stuck: once connected, and while it reads its history."""
_OF_PLACE = ("ts_sec", "file", "pos", "gtids", "server_id")


def boundary(offset: Mapping[str, Any]) -> dict[str, Any]:
    """The beginning of a record's transaction, from which the connector sends all of it.

    Its count within the transaction is left out: where a statement such as ALTER TABLE leaves a transaction open, it counts
    heartbeats too, and later changes would be skipped.
    """
    return {name: value for name, value in offset.items() if name in _OF_PLACE}


class EngineFollower(SourceFollower[EngineState, RecordBatch]):
    """Follows the log by one life of the engine."""

    def __init__(
        self,
        engine: EmbeddedEngine,
        effects: Effects,
        connector: Connector,
        history: SchemaHistory,
        resources: CaptureResources[EngineStateStore],
        options: SourceCaptureOptions,
        *,
        whole_from: int,
        on_progress: ProgressListener,
        where: str,
    ) -> None:
        super().__init__(resources, options, whole_from=whole_from, on_progress=on_progress)
        self._engine, self._effects, self._connector, self._history, self._where = engine, effects, connector, history, where
        self._looked_s = self._heard_s = now_s = self._clock.monotonic_s()
        self._burst = BurstDetector(now_s)
        self._reading_ends_ms: int | None = None
        self._until: tuple[str, int] | None = None
        self._ends_at: tuple[int, int] | None = None
        self._ended: Callable[[], PenstockError]
        self._connected = self._began = False

    def run(
        self,
        state: EngineState,
        stopped: Callable[[], bool],
        *,
        until: tuple[str, int] | None,
        ends_at: tuple[str, int] | None = None,
        ended: Callable[[], PenstockError],
    ) -> tuple[EngineState, bool]:
        """Follow until ``stopped()``, to ``until``, or until a signal or a statement asks for rows. Everything before the
        stored place is durable then. Returns the state, and whether rows were asked for. ``ends_at``: as ``until``, with
        nothing sent from this place on.
        """
        self._until, self._ended = until, ended
        if ends_at is not None:
            self._until, self._ends_at = ends_at, (file_number(ends_at[0]), ends_at[1])
            self._effects.set_end(self._ends_at)
        return self._follow(state, stopped)

    def _next(self) -> RecordBatch | None:
        batch = self._engine.next(_BUSY_S if self._sender.waiting else _IDLE_S)
        if batch is None and self._engine.ended:
            raise self._ended()
        return batch

    def _take(self, batch: RecordBatch | None, now_s: float) -> bool:
        until = self._until
        if batch is not None:
            self._heard_s, self._began = now_s, True
            if self._send(batch, now_s) and until is not None:
                self._sender.finish(between(*until, self._snapshot))
                return True
        if now_s - self._looked_s >= (_LOOK_S if until is None or self._reading_ends_ms is not None else _LOOK_FOR_END_S):
            self._looked_s = now_s
            self._look(now_s)
        if self._burst.is_over(self._events, now_s):
            self._engine.give_back()
        return False

    def _flush(self, now_s: float) -> None:
        if self._effects.ends:
            self._sender.flush()

    def _send(self, batch: RecordBatch, now_s: float) -> bool:
        """Send a batch, or its part before a reading's place. Returns whether the last awaited record has come."""
        self._effects.check()
        if self._history.keep():
            self._reached("history durable")
        records: list[ChangeRecord] = []
        barrier = False
        unread = self._effects.unread
        place = boundary(batch.offset)
        if unread is not None and (file_number(place["file"]), place["pos"]) > unread:
            return False  # the connector has passed over an event, and is about to end
        schemas = self._engine.schemas
        for key, value, schema in zip(batch.keys, batch.values, batch.schemas, strict=True):
            try:
                record = record_of(key, value, schemas, schema)
            except KeylessTable as error:
                self._effects.stop(str(error.object), error.message)
                break
            if record is not None:
                at = file_number(record.source.file or ""), record.source.pos
                if self._is_beyond(at):
                    return self._end(records, now_s)
                self._effects.apply_before(records, before=at)
                if self._effects.ends:
                    break
                if not self._effects.prepared.take(record):
                    records.append(record)
            elif (made_ms := heartbeat_ms(value)) is not None:
                self._effects.apply_before(records, made_before_ms=made_ms)
                barrier = barrier or (self._reading_ends_ms is not None and made_ms > self._reading_ends_ms)
        if not self._effects.ends:
            if self._is_beyond((file_number(place["file"]), place["pos"])):
                return self._end(records, now_s)
            self._effects.apply_before(records, before=(file_number(place["file"]), place["pos"]))
        if self._effects.ends:
            self._sender.add(records, None, now_s)
            return False
        number = between(place["file"], place["pos"], self._snapshot)
        if self._sender.add(records, Boundary(json.dumps(place, separators=(",", ":")), number), now_s):
            self._reached("batch sent")
        return barrier and unread is None

    def _is_beyond(self, place: tuple[int, int]) -> bool:
        """Whether the connector has passed over an event before a place, or the life ends before it."""
        unread = self._effects.unread
        return (unread is not None and place > unread) or (self._ends_at is not None and place >= self._ends_at)

    def _end(self, records: list[ChangeRecord], now_s: float) -> bool:
        if self._ends_at is not None:
            self._effects.apply_before(records, before=self._ends_at)
        self._sender.add(records, None, now_s)
        return self._effects.unread is None and not self._effects.ends

    @property
    def _needs_rows(self) -> bool:
        return self._effects.ends

    def _state_at(self, offset: str) -> EngineState:
        place, state = json.loads(offset), self._state
        number = between(place["file"], place["pos"], 0)
        fresh = tuple((table, read) for table, read in state.fresh if read >= number)
        return replace(
            state, offset=offset, history=self._history.parts, prepared=self._effects.prepared.noted(number), fresh=fresh
        )

    def _with_pending(self, state: EngineState, signalled: list[str]) -> EngineState:
        for stop in state.stopped:
            if stop.table in signalled:
                log.warning("a signal asks for %s, which is not read, as it stands still: %s", stop.table, stop.explanation)
        effects = self._effects
        state = replace(
            state,
            pending=tuple(dict.fromkeys((*state.pending, *signalled, *effects.due))),
            fresh=effects.take_fresh_tables(state.fresh),
            unknown=tuple({**dict(state.unknown), **effects.unknown}.items()),
        )
        return state.with_stopped({stop.table: stop.reason for stop in state.stopped} | effects.stopping)

    def _look(self, now_s: float) -> None:
        """Check the connector's connection, which has no event, and whether it has read far enough."""
        domain = self._connector.domain
        connected = bool(self._engine.metric(domain, "streaming", "Connected"))
        lost = self._connected and not connected
        if connected and not self._began:
            self._heard_s, self._began = now_s, True
        self._connected = connected
        if lost or now_s - self._heard_s > (_SILENT_S if self._began else _START_S):
            raise SourceUnavailable(
                "the connector has lost its connection to the database", operation="capture", object=self._where
            )
        until = self._until
        if until is not None and self._reading_ends_ms is None:
            file = str(self._engine.metric(domain, "streaming", "BinlogFilename") or "")
            pos = int(self._engine.metric(domain, "streaming", "BinlogPosition") or 0)
            if file and (file_number(file), pos) >= (file_number(until[0]), until[1]):
                self._reading_ends_ms = self._engine.now_ms()
