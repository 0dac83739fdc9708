"""What a capture keeps in the lake besides its topic: where to go on in the source's log, the history of the tables' columns, and how far a
snapshot is. ``captures/<topic>/<kind>/<name>/state``, written by compare-and-set, and beside it ``history/<number>``, which never change.

Parts of the history are durable before events that need them are sent, and the place to go on is stored after the events before it are durable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial

from ...log.errors import FencedError
from ...log.format.stored_json import Number, StoredForm, parse_stored
from ...log.paths import topic_folder
from ...log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, Version
from ..events.table_types import CAPTURES
from ..postgres.state import AsyncRunner
from .errors import HistoryLost

FORMAT = 1
KINDS = ("debezium", "mongodb")
"""The captures that keep such a state, by the folders of a topic that have theirs."""
_TAKE_OVERS_MAX = 5
_NO_NAME = re.compile(r"(?<!\\)[*+?()\[\]{}|^$]|\\\w")
"""What a pattern has that means more than one name. A dot may mean any character, but lists of names have it without a backslash too."""


ChosenTables = tuple[tuple[str, str], ...]
"""Properties that choose tables, as `CHOOSING` has them."""
CHOOSING = ("database.include.list", "database.exclude.list", "table.include.list", "table.exclude.list")


def choice_text(chosen: ChosenTables) -> str:
    """A choice of tables, for people."""
    return ", ".join(f"{name}={value}" for name, value in chosen) or "all tables"


def may_overlap(one: ChosenTables, other: ChosenTables) -> bool:
    """Whether two choices may have a table in both. Only lists of plain names, without a common one, are told apart."""
    mine, theirs = dict(one), dict(other)
    for name in ("table.include.list", "database.include.list"):
        if name in mine and name in theirs:
            ours, others = _plain_names(mine[name]), _plain_names(theirs[name])
            if ours is not None and others is not None and not ours & others:
                return False
    return True


def _plain_names(patterns: str) -> set[str] | None:
    """The names that a list of patterns means, in small letters, as the connector minds none; None: it may mean others too."""
    if _NO_NAME.search(patterns):
        return None
    return {pattern.strip().replace("\\", "").casefold() for pattern in patterns.split(",")}


@dataclass(frozen=True, slots=True)
class RowsChunk:
    """Rows of a table that are sent as one batch. Written before the batch is sent."""

    table: str
    begins: bool
    """Whether it has the table's first rows."""
    after: tuple[int | str, ...] | None
    """The key behind which it begins, and of its last row; None: there is none, or reading cannot go on behind it."""
    last: tuple[int | str, ...] | None
    end: int
    """The last sequence: the producer has it, or nothing of the chunk is there."""


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A table that cannot be followed: the others go on without it."""

    table: str
    reason: str
    is_told: bool = False
    """Whether the topic says so."""

    @property
    def said(self) -> str:
        """The reason, and the way on."""
        return f"{self.reason}. Change the table, or leave it out (--set table.exclude.list=…), then --snapshot again"


@dataclass(frozen=True, slots=True)
class RelearnedTable:
    """A table whose columns were asked for, as the log does not tell them: the connector is told them at a later place, and nothing of it before."""

    table: str
    offset: str
    """The place, in the connector's words."""
    lines: str
    """Lines for the connector's history, which say the columns there."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """The state of one name and one topic."""

    life: str
    """The life of the topic, which may be deleted and made anew."""
    connector: str
    server: str
    """What tells the source's server, and the beginning of its log, from others."""
    offset: str | None = None
    """The connector's own words for a place in the log, at the beginning of a transaction; None: no capture has begun."""
    history: int = 0
    """The number of parts that the history has."""
    pending: tuple[str, ...] = ()
    """Tables whose rows are still to be read."""
    emptied: tuple[str, ...] = ()
    """Pending tables that are emptied in the topic before their rows come."""
    chunk: RowsChunk | None = None
    chosen: ChosenTables | None = None
    """What chooses the tables; None: an earlier release did not note it."""
    renewed: bool = False
    """Whether the topic may have rows of an earlier beginning, also where its producers' names are forgotten by now."""
    known: tuple[str, ...] = ()
    """Collections that the topic may have documents of, also where they are gone. Debezium's captures, which keep a dropped table, note none."""
    prepared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Transactions of two phases that were prepared before the place and not ended, with the tables of their rows."""
    stopped: tuple[StoppedTable, ...] = ()
    """Tables that cannot be followed."""
    fresh: tuple[tuple[str, int], ...] = ()
    """Tables that were read again, with a place in the log (`positions.between`) that is not behind that reading."""
    unknown: tuple[tuple[str, str], ...] = ()
    """Tables whose columns the log does not tell from a place on that is behind this one, and why."""
    learnt: tuple[RelearnedTable, ...] = ()
    """Such tables, once their columns are known."""
    opened: tuple[int, int] = (0, 0)
    """Where in the topic's log the process that wrote the state opened its producer. A process that opened later takes the state over; one
    that opened earlier is refused."""

    def with_stopped(self, tables: Mapping[str, str]) -> EngineState:
        """The state in which these tables stand still too, with the reasons."""
        known = {one.table for one in self.stopped}
        new = tuple(StoppedTable(table, reason) for table, reason in tables.items() if table not in known)
        left = tuple(table for table in self.pending if table not in tables)
        return replace(
            self,
            stopped=(*self.stopped, *new),
            pending=left,
            emptied=tuple(one for one in self.emptied if one in left),
            unknown=tuple(one for one in self.unknown if one[0] not in tables),
            learnt=tuple(one for one in self.learnt if one.table not in tables),
        )

    @property
    def place(self) -> str | None:
        """Where in the log the capture would go on, such as ``binlog.000007:1234``, or ``1795803143:6`` of MongoDB's log."""
        if self.offset is None:
            return None
        found = json.loads(self.offset)
        return f"{found['sec']}:{found['ord']}" if self.connector == "mongodb" else f"{found['file']}:{found['pos']}"


class _ChunkForm(StoredForm, frozen=True):
    table: str
    begins: bool
    after: tuple[int | str, ...] | None
    last: tuple[int | str, ...] | None
    end: Number


class _StoppedForm(StoredForm, frozen=True):
    table: str
    reason: str
    is_told: bool = False


class _LearntForm(StoredForm, frozen=True):
    table: str
    offset: str
    lines: str


class _Offset(StoredForm, frozen=True):
    file: str
    pos: Number
    ts_sec: Number | None = None
    gtids: str | None = None
    server_id: Number | None = None


class _ClusterTime(StoredForm, frozen=True):
    sec: Number
    ord: Number
    token: str | None = None
    event: str | None = None


class _Form(StoredForm, frozen=True):
    format: int
    life: str
    connector: str
    server: str
    offset: str | None
    history: Number
    pending: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    chunk: _ChunkForm | None = None
    opened: tuple[Number, Number] = (0, 0)
    chosen: tuple[tuple[str, str], ...] | None = None
    renewed: bool = False
    known: tuple[str, ...] = ()
    prepared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fresh: tuple[tuple[str, Number], ...] = ()
    stopped: tuple[_StoppedForm, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    learnt: tuple[_LearntForm, ...] = ()


class EngineStateStore:
    """Reads and writes the state. Only the process that read or wrote it last may write it next."""

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str, name: str, kind: str = KINDS[0]) -> None:
        self._store, self._run = store, run
        self._folder = f"{CAPTURES}{topic_folder(topic)}/{kind}/{name}/"
        self.key = f"{self._folder}state"
        self._version: Version | None = None
        self._next: tuple[int, Version | None] | None = None
        """The number of the history's next part, and what was there under it when this process looked."""

    def load(self) -> EngineState | None:
        """The stored state. Raises `DataDamaged`, `NewerFormatError`."""
        try:
            found = self._run(lambda: self._store.get(self.key))
        except ObjectMissing:
            self._version = None
            return None
        self._version = found.version
        return parse_engine_state(found.data, self.key)

    def others(self) -> dict[str, EngineState]:
        """The states of other captures of this kind into this topic, by their keys. Raises as `load` does."""
        kind = self._folder.removesuffix("/").rpartition("/")[0]
        keys = [
            one.key for one in self._run(lambda: self._store.list(f"{kind}/")) if one.key.endswith("/state") and one.key != self.key
        ]
        return {key: parse_engine_state(self._run(partial(self._store.get, key)).data, key) for key in keys}

    def take_over(self, life: str, opened: tuple[int, int]) -> EngineState | None:
        """The stored state, which no process that opened its producer earlier writes from now on. Raises `FencedError` when one that did so later
        has taken it over, and as `load` does.
        """
        for attempt in range(_TAKE_OVERS_MAX):
            state = self.load()
            if state is None or state.life != life or state.opened == opened:
                return state
            if state.opened > opened:
                break
            taken = replace(state, opened=opened)
            try:
                self.save(taken)
            except FencedError:  # the earlier process has just written
                if attempt + 1 == _TAKE_OVERS_MAX:
                    raise
            else:
                return taken
        raise FencedError("another capture of this name runs", operation="capture", object=self.key)

    def save(self, state: EngineState) -> None:
        """Replace the stored state. Raises `FencedError` when another capture has written it meanwhile."""
        data = json.dumps({"format": FORMAT, **asdict(state)}, separators=(",", ":"), ensure_ascii=False).encode()
        mode: PutMode = Put.CREATE if self._version is None else IfMatch(self._version)
        try:
            self._version = self._run(lambda: self._store.put(self.key, data, mode=mode))
        except Conflict as error:
            try:
                found = self._run(lambda: self._store.get(self.key))
            except ObjectMissing:
                raise error from None
            if found.data != data:  # our own write, whose answer was lost, would be the same
                raise FencedError("another capture of this name runs", operation="capture", object=self.key) from error
            self._version = found.version

    def remove(self) -> None:
        """Remove the state of a capture that did not begin."""
        self._run(lambda: self._store.delete(self.key))
        self._version = None

    def expect_history(self, number: int) -> None:
        """Look what is there under the number of the next part. A process that was killed before it noted a part has left it: what that said
        comes again, and replaces it.
        """
        try:
            self._next = number, self._run(lambda: self._store.get(self._part(number))).version
        except ObjectMissing:
            self._next = number, None

    def add_history(self, number: int, data: bytes) -> None:
        """Put the next part of the history, which was looked for. Raises `FencedError` when another capture has put one since: it began later,
        and this process stood still meanwhile.

        One of this process, or of an earlier one, whose write got no answer and came late is replaced: a later one would have taken the state
        over before.
        """
        expected, version = self._next or (None, None)
        assert expected == number, "it was looked for"
        key = self._part(number)
        while True:
            mode: PutMode = Put.CREATE if version is None else IfMatch(version)
            try:
                self._run(partial(self._store.put, key, data, mode=mode))
                break
            except Conflict as error:
                found = self._run(lambda: self._store.get(key))
                if found.version == version or not self._is_mine():
                    raise FencedError("another capture of this name runs", operation="capture", object=key) from error
                version = found.version
        self.expect_history(number + 1)

    def _is_mine(self) -> bool:
        """Whether the state is still the one that this process read or wrote last."""
        try:
            return bool(self._run(lambda: self._store.get(self.key)).version == self._version)
        except ObjectMissing:
            return False

    def history(self, parts: int) -> bytes:
        """The whole history, behind which the next part comes. Raises `HistoryLost`."""
        self.expect_history(parts)
        found = []
        for number in range(parts):
            try:
                found.append(self._run(partial(self._store.get, self._part(number))).data)
            except ObjectMissing as error:
                raise HistoryLost(
                    "the history of the tables' columns is not whole, so the log cannot be read",
                    operation="capture",
                    object=self._part(number),
                    expected=f"{parts} parts",
                    observed="this one is missing",
                    hint="begin again with a new snapshot of the tables: --snapshot again",
                ) from error
        return b"".join(found)

    def _part(self, number: int) -> str:
        return f"{self._folder}history/{number:08}"

    # --- Signals ------------------------------------------------------------------------------------------------------------------

    def signal(self, name: str, tables: Iterable[str]) -> None:
        """Ask the capture to read these tables once more."""
        data = json.dumps({"format": FORMAT, "tables": [*tables]}).encode()
        self._run(lambda: self._store.put(f"{self._folder}signals/{name}", data, mode=Put.CREATE))

    def signals(self) -> dict[str, tuple[str, ...]]:
        """What was asked and not yet noted in the state: tables by the signal's key."""
        return {
            one.key: parse_stored(
                self._run(partial(self._store.get, one.key)).data,
                _Signal,
                what="a signal",
                where=one.key,
                operation="capture",
            ).tables
            for one in self._run(lambda: self._store.list(f"{self._folder}signals/"))
        }

    def forget_signals(self, keys: Iterable[str]) -> None:
        """Remove signals that the state has."""
        for key in keys:
            self._run(partial(self._store.delete, key))


def name_of(key: str) -> str | None:
    """The name of the capture whose state a key has, ``captures/TOPIC/KIND/NAME/state``; None: it is no such key."""
    match key.removeprefix(CAPTURES).split("/"):
        case [_, kind, name, "state"] if kind in KINDS:
            return name
    return None


def parse_engine_state(data: bytes, where: str) -> EngineState:
    """The state of a capture. Raises `DataDamaged`, `NewerFormatError`."""
    form = parse_stored(data, _Form, what="the state of a capture", where=where, operation="capture")
    if form.offset is not None:
        parse_stored(
            form.offset,
            _ClusterTime if form.connector == "mongodb" else _Offset,
            what="the place in the log, in the state of a capture,",
            where=where,
            operation="capture",
        )
    said = form.chunk
    chunk = None if said is None else RowsChunk(said.table, said.begins, said.after, said.last, said.end)
    return EngineState(
        form.life,
        form.connector,
        form.server,
        form.offset,
        form.history,
        form.pending,
        form.emptied,
        chunk,
        form.chosen,
        form.renewed,
        form.known,
        form.prepared,
        tuple(StoppedTable(one.table, one.reason, one.is_told) for one in form.stopped),
        form.fresh,
        form.unknown,
        tuple(RelearnedTable(one.table, one.offset, one.lines) for one in form.learnt),
        form.opened,
    )


class _Signal(StoredForm, frozen=True):
    format: int
    tables: tuple[str, ...]
