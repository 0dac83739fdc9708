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
from ..capture.follower import SourceFollower
from ..capture.options import SourceCaptureOptions
from ..capture.progress import ProgressListener
from ..capture.record_sender import Boundary
from ..capture.records import ChangeRecord
from ..capture.resources import CaptureResources
from .documents import identity_text, record_of
from .errors import translated
from .places import StreamPlace, parse_place, token_text
from .positions import ClusterTime, before, between, sequence_of, time_of_token
from .server import MongoServer
from .state import MongoState, MongoStateStore

_GATHER_S = 0.1
_NEXT_ENTRY_S = 21.0
"""The longest wait for a log entry: a server checks every ten seconds whether its log rests, and writes one."""
_GATHERED_MAX, _GATHERED_BYTES_MAX, _LOOKED_UP_MAX = 2000, 4 * 1024 * 1024, 100
log = logging.getLogger("penstock.cdc")
_OPS = {"insert": "c", "update": "u", "replace": "u", "delete": "d", "drop": "t", "rename": "t"}


@dataclass(frozen=True, slots=True)
class _Change:
    sequence: int
    time: ClusterTime
    event: Mapping[str, Any]

    @property
    def collection(self) -> str:
        return str(self.event["ns"]["coll"])

    @property
    def has_no_image(self) -> bool:
        return self.event["operationType"] == "update" and self.event.get("fullDocument") is None


class ChangeStreamFollower(SourceFollower[MongoState, Mapping[str, Any]]):
    """Follows a change stream."""

    _rest_s = 60.0
    """Other databases move the log's time."""

    def __init__(
        self,
        server: MongoServer,
        wanted: Callable[[str], bool],
        resources: CaptureResources[MongoStateStore],
        options: SourceCaptureOptions,
        *,
        whole_from: int,
        on_progress: ProgressListener,
    ) -> None:
        """``wanted``: whether a collection is captured."""
        super().__init__(resources, options, whole_from=whole_from, on_progress=on_progress)
        self._server, self._wanted = server, wanted
        self._stream: Any  # PyMongo is an extra
        self._newest: Mapping[str, Any] | None = None
        self._until: ClusterTime | None = None
        self._renamed: str | None = None
        """The collection whose documents a rename made others."""
        self._flushed_s = self._clock.monotonic_s()
        self._complete_s = math.inf
        self._gathered: list[tuple[_Change, ChangeRecord | None]] = []
        self._gathered_bytes = 0
        self._looked_up_max = _LOOKED_UP_MAX
        self._time = ClusterTime(0, 0)
        self._token: str | None = None
        self._event: str | None = None
        self._index = 0
        self._last = -1
        self._boundary = self._flushed = Boundary("", 0)
        self._complete_until = ClusterTime(0, 0)

    def run(self, state: MongoState, stopped: Callable[[], bool], *, until: ClusterTime | None) -> tuple[MongoState, bool]:
        """Follow until ``stopped()``, to ``until``, or until documents have to be read, after a rename or by a signal.
        Everything before the stored place is durable then. Returns the state, and whether documents are to be read.
        """
        assert state.offset is not None, "it has begun"
        place = parse_place(state.offset)
        self._until, self._time, self._token, self._event = until, place.time, place.token, place.event
        self._complete_behind(place.time, place.token)
        self._flushed = self._boundary
        self._stream = self._server.watch(place)
        try:
            return self._follow(state, stopped)
        finally:
            self._stream.close()

    def _next(self) -> Mapping[str, Any] | None:
        with translated(self._server.where):
            change: Mapping[str, Any] | None = self._stream.try_next()
            self._newest = self._stream.resume_token
        return change

    def _take(self, batch: Mapping[str, Any] | None, now_s: float) -> bool:
        if batch is None:
            self._note_complete()
        else:
            self._gather(batch)
            if batch["operationType"] == "rename" and self._wanted(batch["to"]["coll"]):
                self._renamed = batch["to"]["coll"]
                # A rename has a time of its own, at which the topic lacks what is read next.
                self._complete_behind(self._time, self._token)
                self._sender.raise_consistent_from(self._boundary.number + 1)
                return False
            if batch["operationType"] == "invalidate":  # the stream ends with the database, which may be made again
                self._stream.close()
                self._stream = self._server.watch(StreamPlace(self._time, self._token))
            if not self._is_full and now_s - self._flushed_s < _GATHER_S:
                return False
        self._flush(now_s)
        return self._until is not None and self._complete_until >= self._until and self._may_end(now_s)

    def _may_end(self, now_s: float) -> bool:
        """Whether all expected events have come. The place after them may need the log's next entry, perhaps another
        database's.
        """
        self._complete_s = min(self._complete_s, now_s)
        return not self._sender.lacks_place(self._boundary) or now_s - self._complete_s >= _NEXT_ENTRY_S

    def _gather(self, change: Mapping[str, Any]) -> None:
        """Count and gather an event. Raises `DataDamaged`, `LimitExceeded`."""
        stamp = change["clusterTime"]
        time = ClusterTime(stamp.time, stamp.inc)
        if time > self._time:
            self._complete_behind(self._time, self._token)
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

    def _note_complete(self) -> None:
        """Note that the stream is complete up to the newest token.

        It is the last event's, or stands before all events of a later time of the log.
        """
        time = None if self._newest is None else time_of_token(self._newest["_data"])
        if self._newest is None or time is None:
            return
        token = token_text(self._newest)
        end = time if token == self._token else before(time)
        if end >= self._time:
            self._complete_behind(end, token)
        self._complete_until = max(self._complete_until, time)

    def _complete_behind(self, time: ClusterTime, token: str | None) -> None:
        self._complete_until = max(self._complete_until, time)
        self._boundary = Boundary(StreamPlace(time, token, self._event).text, between(time, self._snapshot, last=self._last))

    @property
    def _is_full(self) -> bool:
        return len(self._gathered) >= _GATHERED_MAX or self._gathered_bytes >= _GATHERED_BYTES_MAX

    def _flush(self, now_s: float) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._flushed_s = now_s
        self._note_new(gathered)
        while (count := self._fitting(gathered)) < len(gathered):
            self._send(gathered[:count], self._flushed, now_s)
            gathered = gathered[count:]
        self._send(gathered, self._boundary, now_s)
        self._flushed = self._boundary

    def _note_new(self, gathered: Sequence[tuple[_Change, ChangeRecord | None]]) -> None:
        """Note new collections before their changes are sent: if log and collection are lost, the topic's rows have to go too."""
        new = dict.fromkeys(change.collection for change, _ in gathered if change.collection not in self._state.known)
        if new:
            self._state = replace(self._state, known=(*self._state.known, *new))
            self._states.save(self._state)

    def _fitting(self, gathered: Sequence[tuple[_Change, ChangeRecord | None]]) -> int:
        """The number of changes to look up together, by their documents' size."""
        looked_up = (place for place, (_, record) in enumerate(gathered) if record is None)
        return next(itertools.islice(looked_up, self._looked_up_max, None), len(gathered))

    def _send(self, gathered: Sequence[tuple[_Change, ChangeRecord | None]], boundary: Boundary, now_s: float) -> None:
        found = self._looked_up([change for change, record in gathered if record is None])
        records = [made for change, record in gathered if (made := record or found.get(change.sequence)) is not None]
        if self._sender.add(records, boundary, now_s):
            self._reached("batch sent")

    def _looked_up(self, changes: Sequence[_Change]) -> dict[int, ChangeRecord]:
        """The changes' records by sequence, with the current documents; none for a removed document, whose change follows.

        Changes that the documents already have come again later: until then the topic equals the source nowhere.
        """
        by_collection: dict[str, list[_Change]] = {}
        for change in changes:
            by_collection.setdefault(change.collection, []).append(change)
        found: dict[int, ChangeRecord] = {}
        for collection, group in by_collection.items():
            ids = [change.event["documentKey"]["_id"] for change in group]
            documents = self._server.lookup(collection, ids, since=changes[-1].time)
            by_id = {identity_text(document["_id"]): document for document in documents}
            for change, identity in zip(group, ids, strict=True):
                if (document := by_id.get(identity_text(identity))) is not None:
                    found[change.sequence] = self._record(change, document)
        if changes:
            self._sender.raise_consistent_from(between(self._server.now(), self._snapshot))
        if found:
            mean_bytes = sum(len(record.body) for record in found.values()) // len(found)
            self._looked_up_max = max(1, min(_LOOKED_UP_MAX, _GATHERED_BYTES_MAX // mean_bytes))
        return found

    def _record(self, change: _Change, document: Mapping[str, Any] | None) -> ChangeRecord:
        event, op = change.event, _OPS[change.event["operationType"]]
        wall = event.get("wallTime")
        return record_of(
            op,
            (self._server.database, change.collection),
            event.get("documentKey", {}).get("_id"),
            document,
            sequence=change.sequence,
            position=change.sequence,
            made_ms=change.time.sec * 1000 if wall is None else int(wall.timestamp() * 1000),
            name=self._name,
        )

    # --- The state ----------------------------------------------------------------------------------------------------------------

    @property
    def _needs_rows(self) -> bool:
        return self._renamed is not None

    def _state_at(self, offset: str) -> MongoState:
        return replace(self._state, offset=offset)

    def _with_pending(self, state: MongoState, signalled: list[str]) -> MongoState:
        renamed = () if self._renamed is None else (self._renamed,)
        collections = (*renamed, *filter(None, map(self._signalled, signalled)))
        return replace(
            state,
            known=tuple(dict.fromkeys((*state.known, *collections))),
            pending=tuple(dict.fromkeys((*state.pending, *collections))),
            emptied=tuple(dict.fromkeys((*state.emptied, *renamed))),
        )

    def _signalled(self, table: str) -> str | None:
        """A signal's collection, if it is captured: otherwise no changes would follow its rows."""
        database, _, collection = table.partition(".")
        if database == self._server.database and self._wanted(collection):
            return collection
        log.warning("a signal asks for %s, which is not captured of %s: nothing is read", table, self._server.where)
        return None
