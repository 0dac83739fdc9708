"""One life of the engine: records go into the topic, and the place to go on into the state."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...log.errors import PenstockError
from ...log.produce.producer import Producer
from ...log.runtime.runtime import Clock
from ..capture.errors import CaptureRetry, SourceUnavailable
from ..capture.outbox import Boundary, RecordOutbox
from ..capture.progress import ProgressListener, ProgressReporter
from ..capture.records import ChangeRecord, heartbeat
from .configuration import Connector
from .effects import Effects
from .engine import EmbeddedEngine, RecordBatch
from .history import SchemaHistory
from .memory import BurstDetector
from .positions import between, file_number
from .records import KeylessTable, heartbeat_ms, record_of
from .state import EngineState, EngineStateStore

log = logging.getLogger("penstock.cdc.debezium")

_SAVE_S, _TELL_S, _SIGNALS_S = 1.0, 1.0, 5.0
_LOOK_S, _LOOK_FOR_END_S = 1.0, 0.1
_IDLE_S, _BUSY_S = 0.25, 0.01
_SILENT_S, _START_S = 20.0, 600.0
"""A connector sends a heartbeat about every second, once it has read the history and connected."""
_OF_PLACE = ("ts_sec", "file", "pos", "gtids", "server_id")


def boundary(offset: Mapping[str, Any]) -> dict[str, Any]:
    """The beginning of a record's transaction, from which the connector sends all of it.

    Its count within the transaction is left out: where a statement such as ALTER TABLE leaves a transaction open, it counts
    heartbeats too, and later changes would be skipped.
    """
    return {name: value for name, value in offset.items() if name in _OF_PLACE}


class EngineFollower:
    """Reads the engine until it is stopped."""

    def __init__(
        self,
        engine: EmbeddedEngine,
        effects: Effects,
        connector: Connector,
        producer: Producer,
        states: EngineStateStore,
        history: SchemaHistory,
        clock: Clock,
        *,
        reached: Callable[[str], None],
        tell: ProgressListener,
        reading: int,
        whole_from: tuple[str, int],
        where: str,
        beats_as: str | None,
    ) -> None:
        """``reading``: the number of the last reading of tables' rows. ``whole_from``: a place not before it. ``beats_as``: the
        name in messages that mark that the topic equals the source, where no change does.
        """
        self._engine, self._effects, self._connector, self._states, self._history = engine, effects, connector, states, history
        self._clock, self._reached, self._where = clock, reached, where
        self._reading = reading

        def beat(number: int) -> ChangeRecord:
            assert beats_as is not None, "it is asked for"
            return heartbeat(beats_as, number, clock.wall_ms())

        self._outbox = RecordOutbox(
            producer, whole_from=between(*whole_from, reading), heartbeat=None if beats_as is None else beat
        )
        now_s = clock.monotonic_s()
        self._saved_s = self._told_s = self._looked_s = self._heard_s = now_s
        self._signals_s = now_s - _SIGNALS_S
        self._reporter = ProgressReporter(self._outbox, tell)
        self._burst = BurstDetector(now_s)
        self._reading_ends_ms: int | None = None
        self._ends_at: tuple[int, int] | None = None
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
        if ends_at is not None:
            until, self._ends_at = ends_at, (file_number(ends_at[0]), ends_at[1])
            self._effects.set_end(self._ends_at)
        try:
            state, asked = self._run(state, stopped, until, ended)
        except CaptureRetry:
            self._outbox.settle(wait=True)  # the next life has to know what is there
            raise
        if asked or self._effects.ends:
            signalled = dict.fromkeys(table for key in sorted(asked) for table in asked[key])
            for one in state.stopped:
                if one.table in signalled:
                    log.warning("a signal asks for %s, which is not read, as it stands still: %s", one.table, one.said)
            tables = [*signalled, *self._effects.due]
            pending = tuple(dict.fromkeys((*state.pending, *tables)))
            state = replace(state, pending=pending, fresh=self._effects.take_fresh_tables(state.fresh))
            state = replace(state, unknown=tuple({**dict(state.unknown), **self._effects.unknown}.items()))
            state = state.with_stopped({one.table: one.reason for one in state.stopped} | self._effects.stopping)
            self._states.save(state)
            self._reached("signal taken")
            self._states.forget_signals(asked)
        self._say()
        return state, bool(asked or self._effects.ends)

    def _run(
        self, state: EngineState, stopped: Callable[[], bool], until: tuple[str, int] | None, ended: Callable[[], PenstockError]
    ) -> tuple[EngineState, dict[str, tuple[str, ...]]]:
        asked: dict[str, tuple[str, ...]] = {}
        while not stopped() and not asked and not self._effects.ends:
            batch = self._engine.next(_BUSY_S if self._outbox.waiting else _IDLE_S)
            now_s = self._clock.monotonic_s()
            if batch is not None:
                self._heard_s, self._began = now_s, True
                if self._take(batch, now_s) and until is not None:
                    self._outbox.finish(between(*until, self._reading))
                    break
            elif self._engine.ended:
                raise ended()
            if self._outbox.tick(now_s):
                self._reached("batch sent")
            self._outbox.settle()
            state = self._save(state, now_s)
            if now_s - self._looked_s >= (_LOOK_S if until is None or self._reading_ends_ms is not None else _LOOK_FOR_END_S):
                self._looked_s = now_s
                self._look(now_s, until)
            if now_s - self._signals_s >= _SIGNALS_S:
                self._signals_s = now_s
                asked = self._states.signals()
            if self._burst.is_over(self._outbox.events + self._outbox.duplicates, now_s):
                self._engine.give_back()
        if self._effects.ends:
            self._outbox.flush()
        self._outbox.settle(wait=True)
        return self._save(state, None), asked

    def _take(self, batch: RecordBatch, now_s: float) -> bool:
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
            self._outbox.add(records, None, now_s)
            return False
        number = between(place["file"], place["pos"], self._reading)
        if self._outbox.add(records, Boundary(json.dumps(place, separators=(",", ":")), number), now_s):
            self._reached("batch sent")
        return barrier and unread is None

    def _is_beyond(self, place: tuple[int, int]) -> bool:
        """Whether the connector has passed over an event before a place, or the life ends before it."""
        unread = self._effects.unread
        return (unread is not None and place > unread) or (self._ends_at is not None and place >= self._ends_at)

    def _end(self, records: list[ChangeRecord], now_s: float) -> bool:
        if self._ends_at is not None:
            self._effects.apply_before(records, before=self._ends_at)
        self._outbox.add(records, None, now_s)
        return self._effects.unread is None and not self._effects.ends

    def _save(self, state: EngineState, now_s: float | None) -> EngineState:
        """Store the place now and then; with None, now."""
        offset, parts = self._outbox.offset, self._history.parts
        if (
            offset is not None
            and (offset, parts) != (state.offset, state.history)
            and (now_s is None or now_s - self._saved_s >= _SAVE_S)
        ):
            self._reached("batch durable")
            place = json.loads(offset)
            number = between(place["file"], place["pos"], 0)
            fresh = tuple((table, read) for table, read in state.fresh if read >= number)
            state = replace(state, offset=offset, history=parts, prepared=self._effects.prepared.noted(number), fresh=fresh)
            self._states.save(state)
            self._saved_s = now_s or self._saved_s
            self._reached("place saved")
        if now_s is not None and now_s - self._told_s >= _TELL_S:
            self._told_s = now_s
            self._say()
        return state

    def _look(self, now_s: float, until: tuple[str, int] | None) -> None:
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
        if until is not None and self._reading_ends_ms is None:
            file = str(self._engine.metric(domain, "streaming", "BinlogFilename") or "")
            pos = int(self._engine.metric(domain, "streaming", "BinlogPosition") or 0)
            if file and (file_number(file), pos) >= (file_number(until[0]), until[1]):
                self._reading_ends_ms = self._engine.now_ms()

    def _say(self) -> None:
        place = None if self._outbox.offset is None else json.loads(self._outbox.offset)
        self._reporter.report(None if place is None else f"{place.get('file')}:{place.get('pos')}")
