"""One change stream: changes go into the topic, and the place to go on into the state.

Events of one cluster time come together. They are complete at a later time's event, or at the stream's end: there lies a place
between transactions, where a later process may begin to count.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...log.errors import DataDamaged
from ...log.produce.producer import Producer
from ...log.runtime.runtime import Clock
from ..capture.errors import CaptureRetry
from ..capture.outbox import Boundary, RecordOutbox
from ..capture.progress import ProgressListener, ProgressReporter
from ..capture.records import ChangeRecord, heartbeat
from .documents import identity_text, record_of
from .errors import translated
from .places import StreamPlace, parse_place, token_text
from .positions import ClusterTime, before, between, sequence_of, time_of_token
from .server import MongoServer
from .state import MongoState, MongoStateStore

_SAVE_S, _TELL_S, _SIGNALS_S, _GATHER_S = 1.0, 1.0, 5.0, 0.1
_REST_S = 60.0
"""The age of a stored place before it is renewed without events: other databases move the log's time."""
_NEXT_ENTRY_S = 21.0
"""The longest wait for a log entry: a server checks every ten seconds whether its log rests, and writes one."""
_GATHERED_MAX, _GATHERED_BYTES_MAX, _LOOKED_UP_MAX = 2000, 4 * 1024 * 1024, 100
log = logging.getLogger("penstock.cdc.mongodb")
_OPS = {"insert": "c", "update": "u", "replace": "u", "delete": "d", "drop": "t", "rename": "t"}


@dataclass(frozen=True, slots=True)
class _Change:
    sequence: int
    time: ClusterTime
    said: Mapping[str, Any]

    @property
    def collection(self) -> str:
        return str(self.said["ns"]["coll"])

    @property
    def has_no_image(self) -> bool:
        """Whether the event lacks the document, for want of post-images."""
        return self.said["operationType"] == "update" and self.said.get("fullDocument") is None


class ChangeFollower:
    """Reads the stream until stopped."""

    def __init__(
        self,
        server: MongoServer,
        name: str,
        wanted: Callable[[str], bool],
        producer: Producer,
        states: MongoStateStore,
        clock: Clock,
        *,
        reached: Callable[[str], None],
        tell: ProgressListener,
        reading: int,
        whole_from: ClusterTime,
        heartbeats: bool,
    ) -> None:
        """``wanted``: whether a collection is captured. ``reading``: the number of the last reading of documents.
        ``whole_from``: a time not before it. ``heartbeats``: send a message where no change marks that the topic equals the
        source.
        """
        self._server, self._name, self._wanted, self._states, self._clock = server, name, wanted, states, clock
        self._reached, self._reading = reached, reading

        def beat(number: int) -> ChangeRecord:
            return heartbeat(name, number, clock.wall_ms())

        self._outbox = RecordOutbox(producer, whole_from=between(whole_from, reading), heartbeat=beat if heartbeats else None)
        now_s = clock.monotonic_s()
        self._saved_s = self._told_s = self._flushed_s = now_s
        self._signals_s = now_s - _SIGNALS_S
        self._all_told_s = math.inf
        self._reporter = ProgressReporter(self._outbox, tell)
        self._saved_events = 0
        self._gathered: list[tuple[_Change, ChangeRecord | None]] = []
        self._gathered_bytes = 0
        self._looked_up_max = _LOOKED_UP_MAX
        self._time = ClusterTime(0, 0)
        self._token: str | None = None
        self._event: str | None = None
        self._index = 0
        self._last = -1
        self._boundary = self._flushed = Boundary("", 0)
        self._told_until = ClusterTime(0, 0)
        """The time up to which the stream is complete."""

    def run(self, state: MongoState, stopped: Callable[[], bool], *, until: ClusterTime | None) -> tuple[MongoState, bool]:
        """Follow until ``stopped()``, to ``until``, or until documents have to be read, after a rename or by a signal.
        Everything before the stored place is durable then. Returns the state, and whether documents are to be read.
        """
        assert state.offset is not None, "it has begun"
        place = parse_place(state.offset)
        self._time, self._token, self._event = place.time, place.token, place.event
        self._whole_behind(place.time, place.token)
        self._flushed = self._boundary
        stream = self._server.watch(place)
        try:
            while not stopped():
                with translated(self._server.where):
                    change = stream.try_next()
                    newest = stream.resume_token
                now_s = self._clock.monotonic_s()
                if change is not None:
                    self._take(change)
                    if change["operationType"] == "rename" and self._wanted(change["to"]["coll"]):
                        return self._read_next(state, now_s, (change["to"]["coll"],), empty=True), True
                    if change["operationType"] == "invalidate":  # the stream ends with the database, which may be made again
                        stream.close()
                        stream = self._server.watch(StreamPlace(self._time, self._token))
                    if not self._is_full and now_s - self._flushed_s < _GATHER_S:
                        continue
                else:
                    self._whole(newest)
                state = self._flush(state, now_s)
                self._outbox.settle()
                state = self._save(state, now_s)
                if now_s - self._signals_s >= _SIGNALS_S:
                    self._signals_s = now_s
                    if asked := self._states.signals():
                        tables = [table for key in sorted(asked) for table in asked[key]]
                        state = self._read_next(state, now_s, list(filter(None, map(self._asked_for, tables))), empty=False)
                        self._states.forget_signals(asked)
                        return state, True
                if until is not None and self._told_until >= until and self._may_end(now_s):
                    break
            return self._save(self._finish(state, self._clock.monotonic_s()), None), False
        except CaptureRetry:
            self._outbox.settle(wait=True)  # the next life has to know what is there
            raise
        finally:
            stream.close()

    def _may_end(self, now_s: float) -> bool:
        """Whether all expected events have come. The place after them may need the log's next entry, perhaps another
        database's.
        """
        self._all_told_s = min(self._all_told_s, now_s)
        return not self._outbox.lacks_place(self._boundary) or now_s - self._all_told_s >= _NEXT_ENTRY_S

    def _asked_for(self, table: str) -> str | None:
        """A signal's collection, if it is captured: otherwise no changes would follow its rows."""
        database, _, collection = table.partition(".")
        if database == self._server.database and self._wanted(collection):
            return collection
        log.warning("a signal asks for %s, which is not captured of %s: nothing is read", table, self._server.where)
        return None

    def _take(self, change: Mapping[str, Any]) -> None:
        """Count and gather an event. Raises `DataDamaged`, `LimitExceeded`."""
        stamp = change["clusterTime"]
        time = ClusterTime(stamp.time, stamp.inc)
        if time > self._time:
            self._whole_behind(self._time, self._token)
            self._index = 0
        else:
            self._index += 1
        op = _OPS.get(change["operationType"])
        collection = change.get("ns", {}).get("coll", "")
        self._time = time
        self._token = token_text(change["_id"])
        if change["operationType"] != "invalidate":  # which is told of the stream, and is not in the log
            self._event = self._token
        sequence = sequence_of(time, self._index)
        if sequence <= self._last:
            raise DataDamaged(
                "two changes have one number, so a change that comes again could not be told",
                operation="capture",
                object=f"{self._server.database}.{collection}",
                expected="times that rise from one transaction to the next",
                observed=f"time {time}, change {self._index} of it",
                hint="transactions of fewer changes; then capture into a new topic",
            )
        self._last = sequence
        if op is not None and self._wanted(collection):
            found = _Change(sequence, time, change)
            record = None if found.has_no_image else self._record(found, change.get("fullDocument"))
            self._gathered.append((found, record))
            self._gathered_bytes += 0 if record is None else len(record.body)  # what is looked up is bounded there

    def _whole(self, newest: Mapping[str, Any] | None) -> None:
        """Note that the stream is complete up to a token.

        It is the last event's, or stands before all events of a later time of the log.
        """
        time = None if newest is None else time_of_token(newest["_data"])
        if newest is None or time is None:
            return
        token = token_text(newest)
        whole = time if token == self._token else before(time)
        if whole >= self._time:
            self._whole_behind(whole, token)
        self._told_until = max(self._told_until, time)

    def _whole_behind(self, time: ClusterTime, token: str | None) -> None:
        self._told_until = max(self._told_until, time)
        self._boundary = Boundary(StreamPlace(time, token, self._event).text, between(time, self._reading, last=self._last))

    @property
    def _is_full(self) -> bool:
        return len(self._gathered) >= _GATHERED_MAX or self._gathered_bytes >= _GATHERED_BYTES_MAX

    def _flush(self, state: MongoState, now_s: float) -> MongoState:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._flushed_s = now_s
        state = self._note_new(state, gathered)
        while (count := self._fitting(gathered)) < len(gathered):
            self._send(gathered[:count], self._flushed, now_s)
            gathered = gathered[count:]
        self._send(gathered, self._boundary, now_s)
        self._flushed = self._boundary
        return state

    def _note_new(self, state: MongoState, gathered: Sequence[tuple[_Change, ChangeRecord | None]]) -> MongoState:
        """Note new collections before their changes are sent: if log and collection are lost, the topic's rows have to go too."""
        new = dict.fromkeys(change.collection for change, _ in gathered if change.collection not in state.known)
        if new:
            state = replace(state, known=(*state.known, *new))
            self._states.save(state)
        return state

    def _fitting(self, gathered: Sequence[tuple[_Change, ChangeRecord | None]]) -> int:
        """The number of changes to look up together, by their documents' size."""
        looked_up = (place for place, (_, record) in enumerate(gathered) if record is None)
        return next(itertools.islice(looked_up, self._looked_up_max, None), len(gathered))

    def _send(self, gathered: Sequence[tuple[_Change, ChangeRecord | None]], boundary: Boundary, now_s: float) -> None:
        found = self._looked_up([change for change, record in gathered if record is None])
        records = [one for change, record in gathered if (one := record or found.get(change.sequence)) is not None]
        if self._outbox.add(records, boundary, now_s) or self._outbox.tick(now_s):
            self._reached("batch sent")

    def _looked_up(self, changes: Sequence[_Change]) -> dict[int, ChangeRecord]:
        """The changes' records by sequence, with the current documents; none for a removed document, whose change follows.

        Changes that the documents already have come again later: until then the topic equals the source nowhere.
        """
        by_collection: dict[str, list[_Change]] = {}
        for change in changes:
            by_collection.setdefault(change.collection, []).append(change)
        found: dict[int, ChangeRecord] = {}
        for collection, those in by_collection.items():
            ids = [change.said["documentKey"]["_id"] for change in those]
            documents = self._server.lookup(collection, ids, since=changes[-1].time)
            by_id = {identity_text(document["_id"]): document for document in documents}
            for change, identity in zip(those, ids, strict=True):
                if (document := by_id.get(identity_text(identity))) is not None:
                    found[change.sequence] = self._record(change, document)
        if changes:
            self._outbox.raise_consistent_from(between(self._server.now(), self._reading))
        if found:
            mean_bytes = sum(len(record.body) for record in found.values()) // len(found)
            self._looked_up_max = max(1, min(_LOOKED_UP_MAX, _GATHERED_BYTES_MAX // mean_bytes))
        return found

    def _record(self, change: _Change, document: Mapping[str, Any] | None) -> ChangeRecord:
        said, op = change.said, _OPS[change.said["operationType"]]
        wall = said.get("wallTime")
        return record_of(
            op,
            (self._server.database, change.collection),
            said.get("documentKey", {}).get("_id"),
            document,
            sequence=change.sequence,
            position=change.sequence,
            made_ms=change.time.sec * 1000 if wall is None else int(wall.timestamp() * 1000),
            name=self._name,
        )

    # --- The state ----------------------------------------------------------------------------------------------------------------

    def _finish(self, state: MongoState, now_s: float) -> MongoState:
        state = self._flush(state, now_s)
        self._outbox.settle(wait=True)
        self._say()
        return state

    def _read_next(self, state: MongoState, now_s: float, collections: Sequence[str], *, empty: bool) -> MongoState:
        """The state with these collections to be read next, and everything before the newest event's time done."""
        if empty:  # a rename has a time of its own, at which the topic lacks what is read next
            self._whole_behind(self._time, self._token)
            self._outbox.raise_consistent_from(self._boundary.number + 1)
        state = self._finish(state, now_s)
        state = replace(
            state,
            known=tuple(dict.fromkeys((*state.known, *collections))),
            offset=self._outbox.offset or state.offset,
            pending=tuple(dict.fromkeys((*state.pending, *collections))),
            emptied=tuple(dict.fromkeys((*state.emptied, *(collections if empty else ())))),
        )
        self._states.save(state)
        self._reached("signal taken")
        return state

    def _save(self, state: MongoState, now_s: float | None) -> MongoState:
        offset = self._outbox.offset
        events = self._outbox.events + self._outbox.duplicates
        due_s = self._saved_s + (_SAVE_S if events != self._saved_events else _REST_S)
        if offset is not None and offset != state.offset and (now_s is None or now_s >= due_s):
            self._reached("batch durable")
            state = replace(state, offset=offset)
            self._states.save(state)
            self._saved_s, self._saved_events = now_s or self._saved_s, events
            self._reached("place saved")
        if now_s is not None and now_s - self._told_s >= _TELL_S:
            self._told_s = now_s
            self._say()
        return state

    def _say(self) -> None:
        self._reporter.report(None if self._outbox.offset is None else str(parse_place(self._outbox.offset).time))
