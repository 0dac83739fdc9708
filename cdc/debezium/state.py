"""The state of a capture by Debezium's engine: also the history of tables' columns, and tables that stand still or are learnt
anew.

The history's parts are ``history/<number>`` beside the state, never changed, and durable before events that need them are sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from ...log.format.stored_json import Number, StoredForm
from ...log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, Version
from ..capture.state import SourceState, SourceStateForm, SourceStateStore, parse_source_state
from ..capture.state_store import AsyncRunner
from .errors import HistoryLost


class StoppedTable(StoredForm, frozen=True):
    """A table that cannot be followed; the others go on."""

    table: str
    reason: str
    is_told: bool = False
    """Whether the topic has it."""

    @property
    def explanation(self) -> str:
        return f"{self.reason}. Change the table, or leave it out (--set table.exclude.list=…), then --snapshot again"


class RelearnedTable(StoredForm, frozen=True):
    """A table whose columns were queried, as the log lacks them. The connector gets them at a later place, and none of its rows
    before.
    """

    table: str
    offset: str
    """The place, in the connector's text."""
    lines: str
    """The history's lines with the columns there."""


@dataclass(frozen=True, slots=True)
class EngineState(SourceState):
    """The state of one name and one topic."""

    history: int = 0
    prepared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Transactions of two phases prepared before the place and still open, with their rows' tables."""
    stopped: tuple[StoppedTable, ...] = ()
    fresh: tuple[tuple[str, int], ...] = ()
    """Tables read again, with a place (`positions.between`) at or before that reading."""
    unknown: tuple[tuple[str, str], ...] = ()
    """Tables whose columns are unknown from a later place on, and why."""
    learnt: tuple[RelearnedTable, ...] = ()

    def with_stopped(self, tables: Mapping[str, str]) -> EngineState:
        known = {stop.table for stop in self.stopped}
        new = tuple(StoppedTable(table, reason) for table, reason in tables.items() if table not in known)
        pending = tuple(table for table in self.pending if table not in tables)
        return replace(
            self,
            stopped=(*self.stopped, *new),
            pending=pending,
            emptied=tuple(table for table in self.emptied if table in pending),
            unknown=tuple((table, why) for table, why in self.unknown if table not in tables),
            learnt=tuple(learnt for learnt in self.learnt if learnt.table not in tables),
        )

    @property
    def place(self) -> str | None:
        if self.offset is None:
            return None
        found = json.loads(self.offset)
        return f"{found['file']}:{found['pos']}"


class _Offset(StoredForm, frozen=True):
    file: str
    pos: Number
    ts_sec: Number | None = None
    gtids: str | None = None
    server_id: Number | None = None


class _Form(SourceStateForm, frozen=True, kw_only=True):
    history: Number
    prepared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fresh: tuple[tuple[str, Number], ...] = ()
    stopped: tuple[StoppedTable, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    learnt: tuple[RelearnedTable, ...] = ()
    known: tuple[()] = ()
    """Written by earlier releases."""


class EngineStateStore(SourceStateStore[EngineState]):
    """Reads and writes the state and the history."""

    kind = "debezium"

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str, name: str) -> None:
        super().__init__(store, run, topic=topic, name=name)
        self._next: tuple[int, Version | None] | None = None
        """The history's next part, and its version when this process looked."""

    @staticmethod
    def parse(data: bytes, where: str) -> EngineState:
        """Raises `DataDamaged`, `NewerFormatError`."""
        fields = parse_source_state(data, where, _Form, _Offset).fields()
        return EngineState(**{name: value for name, value in fields.items() if name != "known"})

    def expect_history(self, number: int) -> None:
        """Look for the next part, perhaps of a killed process. Its content comes again, and replaces it."""
        try:
            self._next = number, self._run(lambda: self._store.get(self._part(number))).version
        except ObjectMissing:
            self._next = number, None

    def add_history(self, number: int, data: bytes) -> None:
        """Put the next part of the history, which was looked for. Raises `FencedError` when a later capture has put one since.

        A late write of this or an earlier process is replaced: a later one would have taken the state over before.
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
                    raise self._fenced(key) from error
                version = found.version
        self.expect_history(number + 1)

    def history(self, parts: int) -> bytes:
        """The whole history. Raises `HistoryLost`."""
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
