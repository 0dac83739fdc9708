"""A MongoDB into a topic, exactly once: the shell around the change stream, the state and the topic.

The capture's producer sends each event under a sequence of its cluster time (`positions`), so the topic leaves out repeated
ones. A stream begins between two transactions, after durable events.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from ...log.errors import InvalidArgument
from ..capture.errors import SourceReplaced
from ..capture.options import SourceCaptureOptions
from ..capture.resources import CaptureResources
from ..capture.source_capture import SourceCapture
from .follower import ChangeStreamFollower
from .places import StreamPlace
from .positions import between, time_of
from .rows import DocumentsReader
from .server import MongoServer
from .state import MongoState, MongoStateStore

log = logging.getLogger("penstock.cdc")

_OF_THE_SERVER = re.compile(r"system\.|tmp\.agg_out\.|tmp[A-Za-z0-9]{5}\.(convertToCapped\.|renameCollection$)")
"""The server's own collections, and temporary ones of $out and the like or of a move between databases, which a rename turns
into others.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class MongoOptions(SourceCaptureOptions):
    """The options of a MongoDB's capture."""

    kind: ClassVar[str] = "mongodb"
    collections: tuple[str, ...] = ()
    """Names of collections, perhaps with the database before them. None: all, also later ones."""


class MongoCapture(SourceCapture[MongoState]):
    """One database of a MongoDB into one topic."""

    _resources: CaptureResources[MongoStateStore]

    def __init__(self, server: MongoServer, options: MongoOptions, resources: CaptureResources[MongoStateStore]) -> None:
        self._server = server
        self._named = {name.removeprefix(f"{server.database}.") for name in options.collections}
        super().__init__(
            "mongodb",
            server,
            options,
            resources,
            chosen=(("table.include.list", ",".join(sorted(self._named))),) if self._named else (),
        )

    def _wanted(self, collection: str) -> bool:
        return _OF_THE_SERVER.match(collection) is None and (not self._named or collection in self._named)

    def _run(self, stopped: Callable[[], bool]) -> None:
        self._server.check()
        self._log_left_out()
        state = self._prepared()
        if state.offset is None:
            state = self._begin(state)
        while not stopped():
            self._check_beginning()
            if state.pending:
                state = self._read(state, stopped)
            if stopped():
                return
            state, asked = self._follow(state, stopped)
            if not asked:
                return

    def _log_left_out(self) -> None:
        """Log the collections without change streams. Raises `InvalidArgument` for a named one."""
        left_out = [name for name in self._server.time_series() if self._wanted(name)]
        if left_out and self._named:
            raise InvalidArgument(
                "a collection of time series cannot be captured: MongoDB tells no changes of it",
                operation="capture",
                object=f"{self._server.where}: {', '.join(left_out)}",
                expected="collections of documents",
                hint="leave it out of --table",
            )
        for name in left_out:
            log.warning("%s is left out: it is a collection of time series, of which MongoDB tells no changes", name)

    def _new_state(self, server: str, opened: tuple[int, int], former: MongoState | None) -> MongoState:
        known = () if former is None else former.known
        return MongoState(
            self._life, self._kind, server, opened=opened, chosen=self._chosen, renewed=former is not None, known=known
        )

    def _check_beginning(self) -> None:
        last = self._producer.last_sequence
        # Seconds, for the last of many changes of one transaction has a number of a time behind that, though none of a later second.
        if last >= 0 and (now := self._server.now()).sec < time_of(last).sec:
            raise SourceReplaced(
                "the server's log ends before the last change in the topic: it has begun anew, as a restored server has it",
                operation="capture",
                object=self._server.where,
                expected=f"a time from {time_of(last)} on",
                observed=str(now),
                hint="its changes would seem to be there already: capture into a new topic",
            )

    def _begin(self, state: MongoState) -> MongoState:
        place = StreamPlace(self._server.now())
        collections = tuple(filter(self._wanted, self._server.collections()))
        if not collections:
            raise InvalidArgument(
                "there is no such collection",
                operation="capture",
                object=f"{self._server.where}: {', '.join(sorted(self._named)) or 'any'}",
                expected="a collection that is there",
            )
        self._reached("place known")
        known = tuple(dict.fromkeys((*state.known, *collections)))
        # Of those that went while nobody followed, the rows are to go too.
        pending = () if self._options.snapshot == "never" else tuple(filter(self._wanted, known))
        emptied = pending if self._may_have_rows(state) else ()
        state = replace(state, offset=place.text, pending=pending, emptied=emptied, chunk=None, known=known)
        self._states.save(state)
        self._reached("begun")
        return state

    def _read(self, state: MongoState, stopped: Callable[[], bool]) -> MongoState:
        reader = DocumentsReader(
            self._server,
            self._options.name,
            state,
            self._resources,
            since=self._server.now(),
            on_rows=lambda count: self._add_progress(rows=count),
        )
        state = reader.read(stopped)
        if not state.pending:
            self._reached("rows done")
        return state

    def _follow(self, state: MongoState, stopped: Callable[[], bool]) -> tuple[MongoState, bool]:
        now = self._server.now()
        follower = ChangeStreamFollower(
            self._server,
            self._wanted,
            self._resources,
            self._options,
            whole_from=between(now, self._resources.snapshot),  # whatever was read, by this process or earlier ones, is of before
            on_progress=self._add_progress,
        )
        return follower.run(state, stopped, until=now if self._options.once else None)
