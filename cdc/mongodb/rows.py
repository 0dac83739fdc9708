"""The documents of collections, read in the order of ids, and sent chunk by chunk.

A chunk is one batch of the topic, whole or not at all, and recorded before it is sent: after a kill the producer's last
sequence shows where to go on. Later chunks are newer, which is harmless: the changes up to then come again after them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...log.produce.producer import Producer
from ...log.runtime.runtime import Clock
from ..capture.chunks import is_full, send_chunk
from ..capture.outbox import table_of
from ..capture.readings import rows_go_on_at
from ..capture.records import ChangeRecord
from ..capture.state import RowsChunk
from .documents import key_of, record_of, value_of
from .positions import ClusterTime, read_at
from .server import MongoServer
from .state import MongoState, MongoStateStore


class DocumentsReader:
    """Reads a state's pending collections."""

    def __init__(
        self,
        server: MongoServer,
        name: str,
        producer: Producer,
        states: MongoStateStore,
        clock: Clock,
        *,
        since: ClusterTime,
        followed: int,
        reached: Callable[[str], None],
    ) -> None:
        """``since``: a time whose changes documents have. ``followed``: the changes' last sequence."""
        self._server, self._name, self._producer, self._states, self._clock = server, name, producer, states, clock
        self._since, self._reached = since, reached
        self._next = rows_go_on_at(producer.last_sequence, followed)

    def read(self, state: MongoState, stopped: Callable[[], bool], on_rows: Callable[[int], None]) -> MongoState:
        """Send the documents of pending collections, and call ``on_rows`` with their number. Ends early when stopped."""
        there = set(self._server.collections())
        for collection in state.pending:
            after = self._left_at(state, collection)
            if after is None and state.chunk is not None and state.chunk.table == collection:
                # Its last chunk may be there, and what that has goes with the truncate.
                state = replace(state, emptied=tuple(dict.fromkeys((*state.emptied, collection))))
            records = [self._record("t", collection, None, None)] if after is None and collection in state.emptied else []
            size_bytes, last = 0, after
            begin = None if after is None else value_of(after)
            # A view, or what is gone by now, has no documents of its own.
            found = self._server.documents(collection, after=begin, since=self._since) if collection in there else ()
            for document in found:
                if stopped():
                    return state
                record = self._record("r", collection, document["_id"], document)
                records.append(record)
                size_bytes += len(record.body)
                last = key_of(document["_id"])
                if is_full(len(records), size_bytes):
                    state = self._send(state, collection, after, last, records, on_rows)
                    records, size_bytes, after = [], 0, last
            if records:
                state = self._send(state, collection, after, last, records, on_rows)
            state = state.without_pending(collection)
            self._states.save(state)
            self._reached("table done")
        return state

    def _left_at(self, state: MongoState, collection: str) -> str | None:
        chunk = state.chunk
        if chunk is None or chunk.table != collection:
            return None
        behind = chunk.behind(self._producer.last_sequence)
        return None if behind is None else str(behind[0])

    def _record(self, op: str, collection: str, identity: object, document: dict[str, object] | None) -> ChangeRecord:
        number, self._next = self._next, self._next + 1
        return record_of(
            op,
            (self._server.database, collection),
            identity,
            document,
            sequence=number,
            position=read_at(self._since, emptied=op == "t"),
            made_ms=self._clock.wall_ms(),
            name=self._name,
            is_read=True,
        )

    def _send(
        self,
        state: MongoState,
        collection: str,
        after: str | None,
        last: str | None,
        records: list[ChangeRecord],
        on_rows: Callable[[int], None],
    ) -> MongoState:
        def key(text: str | None) -> tuple[str] | None:
            return None if text is None else (text,)

        chunk = RowsChunk(collection, after is None, key(after), key(last), records[-1].sequence)
        state = replace(state, chunk=chunk)
        send_chunk(self._producer, table_of(records), lambda: self._states.save(state), self._reached)
        on_rows(sum(record.op == "r" for record in records))
        return state
