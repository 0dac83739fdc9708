"""The documents of collections, read in the order of ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..capture.records import ChangeRecord
from ..capture.resources import CaptureResources
from ..capture.rows_sender import RowsSender
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
        state: MongoState,
        resources: CaptureResources[MongoStateStore],
        *,
        since: ClusterTime,
        on_rows: Callable[[int], None],
    ) -> None:
        """``since``: a time whose changes documents have."""
        self._server, self._name, self._since, self._clock = server, name, since, resources.clock
        self._sender: RowsSender[MongoState] = RowsSender(
            state, resources, truncate=lambda collection: self._record("t", collection, None, None), on_rows=on_rows
        )

    def read(self, stopped: Callable[[], bool]) -> MongoState:
        """Send the documents of pending collections. Ends early when stopped."""
        there, sender = set(self._server.collections()), self._sender
        for collection in sender.state.pending:
            key = sender.after(collection)
            after = None if key is None else value_of(str(key[0]))
            # A view, or what is gone by now, has no documents of its own.
            found = self._server.documents(collection, after=after, since=self._since) if collection in there else ()
            for document in found:
                if stopped():
                    return sender.state
                record = self._record("r", collection, document["_id"], document)
                sender.add(collection, record, partial(_row_key, document["_id"]))
            sender.finish(collection)
        return sender.state

    def _record(self, op: str, collection: str, identity: object, document: dict[str, object] | None) -> ChangeRecord:
        return record_of(
            op,
            (self._server.database, collection),
            identity,
            document,
            sequence=0,
            position=read_at(self._since, emptied=op == "t"),
            made_ms=self._clock.wall_ms(),
            name=self._name,
            is_read=True,
        )


def _row_key(identity: Any) -> tuple[str]:  # noqa: ANN401 - of any of BSON's types
    return (key_of(identity),)
