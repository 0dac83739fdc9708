"""A capture's state besides its topic: its identity, and its snapshot's progress, in one object written by compare-and-set.

The stream's progress is the producer's last sequence, and the slot's confirmed place.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from ...log.format.stored_json import Number, StoredForm, parse_stored
from ...log.stores.protocol import ObjectStore, Put
from ..capture.state_store import AsyncRunner, CaptureState, StateStore
from ..events.table_types import CAPTURES, TableTypes, types_key

_FORMAT = 2
_NAMES_ONLY = 1
"""The format with names of tables only."""


class TableColumn(NamedTuple):
    """A column of a table; its number is never reused."""

    number: int
    changed: int
    """The transaction of its definition's last change."""
    type: int
    modifier: int
    name: str
    """Empty for generated values, which no event has."""


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table of the topic, under the name in its events."""

    schema: str
    """Empty in the format of names only, where ``name`` has the schema."""
    name: str
    oid: int = 0
    published: int = 0
    """The OID of its place in the publication."""
    leaves: tuple[tuple[int, int, int], ...] = ()
    """Its partitions' OIDs, files' numbers, and attaching transactions."""
    index: int = 0
    numbers: tuple[int, ...] = ()
    settings: int = 0
    """The transaction that set the publication's options."""
    file: int = 0
    """The number of its file, which changes when rows are rewritten; 0: it is partitioned."""
    columns: tuple[TableColumn, ...] = ()
    """Its present and former columns; none in formats of earlier releases."""
    is_read: bool = False
    """Whether its changes follow, with its rows in the topic or not wanted."""
    is_told: bool = False
    """Whether the topic may have rows of this name, to be emptied first."""
    held: str | None = None
    """Why it is no longer captured."""

    @property
    def is_missing(self) -> bool:
        return not self.is_read and self.held is None

    @property
    def named(self) -> tuple[str, str]:
        return self.schema, self.name

    @property
    def qualified(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class Chunk(StoredForm, frozen=True):
    """A table's rows in one batch, recorded before it is sent."""

    table: str
    after: tuple[str, ...] | None
    """The key before its first row; None: the table's beginning."""
    last: tuple[str, ...] | None
    start: Number
    end: Number
    """The last sequence: the producer has it, or nothing of the chunk is there."""
    oid: Number = 0
    """The table's OID; 0 in earlier formats."""


@dataclass(frozen=True, slots=True)
class PostgresState(CaptureState):
    """The state of one slot and one topic."""

    system: str
    database: str
    publication: str
    tables: tuple[CapturedTable, ...] = ()
    renewing: bool = False
    """Whether tables are emptied before their rows, after the first snapshot."""
    chunk: Chunk | None = None
    writes: int = field(default=0, compare=False)
    """The number of the write, which makes states' bytes differ: stores give equal bytes the same version."""

    @property
    def done(self) -> tuple[str, ...]:
        return tuple(table.qualified for table in self.tables if table.is_read)

    def settled(self, last_sequence: int) -> PostgresState:
        """The state with the chunk confirmed or dropped, by the producer's last sequence. Once other events are sent, a lost
        chunk would seem sent.
        """
        chunk = self.chunk
        if chunk is None or last_sequence >= chunk.end:
            return self
        if chunk.after is None:
            return replace(self, chunk=None)
        return replace(self, chunk=msgspec.structs.replace(chunk, last=chunk.after, start=last_sequence, end=last_sequence))

    def planned(self, tables: Iterable[CapturedTable], *, stopping: Container[tuple[str, str]]) -> PostgresState:
        """The state with the current tables. Those ``stopping`` are reported first. A chunk stays with its unchanged table."""
        before, chunk = {table.named: table for table in self.tables}, self.chunk
        now = tuple(before.get(table.named, replace(table, held=None)) if table.named in stopping else table for table in tables)
        if chunk is not None and not chunk.oid:  # of an earlier release
            found = [table for table in now if table.qualified == chunk.table]
            chunk = msgspec.structs.replace(chunk, oid=found[0].oid) if len(found) == 1 else None
            unsure = () if chunk is not None else {table.named for table in found}
            now = tuple(replace(table, is_told=True) if table.named in unsure else table for table in now)
        elif chunk is not None:
            kept = [table for table in now if table.oid == chunk.oid and table.is_missing and before.get(table.named) == table]
            chunk = chunk if kept else None
        return replace(self, tables=now, chunk=chunk)

    @property
    def has_begun(self) -> bool:
        return any(table.is_read for table in self.tables) or self.chunk is not None


class PostgresStateStore(StateStore[PostgresState]):
    """Reads and writes the state."""

    format = _FORMAT

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str, slot: str) -> None:
        super().__init__(store, run, topic=topic, folder="", name=f"{slot}.json")
        self._writes = 0

    @staticmethod
    def parse(data: bytes, where: str) -> PostgresState:
        """A stored state. Raises `DataDamaged`, `NewerFormatError`."""
        formats = (_NAMES_ONLY, _FORMAT)
        form = parse_stored(data, _Form, what="the state of a capture", where=where, operation="capture", formats=formats)
        return form.state()

    @staticmethod
    def _is_state(key: str) -> bool:
        return slot_of(key) is not None

    def load(self) -> PostgresState | None:
        state = super().load()
        self._writes = 0 if state is None else state.writes
        return state

    def take_over(self) -> PostgresState | None:
        """The stored state, rewritten, so that an earlier process's write still under way fails. Otherwise it could restore a
        chunk that was never sent, and would seem sent by other events' sequences. Raises as `load` and `save`.
        """
        return self._claim(lambda state: state)

    def save(self, state: PostgresState) -> None:
        state = replace(state, writes=self._writes + 1)
        super().save(state)
        self._writes = state.writes


def slot_of(key: str) -> str | None:
    """The slot in a state's key ``captures/TOPIC/SLOT.json``; None for other keys."""
    name = key.removeprefix(CAPTURES)
    return name.partition("/")[2].removesuffix(".json") if name.endswith(".json") and name.count("/") == 1 else None


class TypesStore:
    """Stores column types for syncs."""

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str) -> None:
        self._store, self._run, self._topic = store, run, topic
        self._kept: set[str] = set()

    def keep(self, types: TableTypes) -> None:
        """Store types durably, without a condition: the name implies the content."""
        if types.name not in self._kept:
            key = types_key(self._topic, types.name)
            self._run(lambda: self._store.put(key, types.data, mode=Put.REPLACE))
            self._kept.add(types.name)


class _CapturedForm(StoredForm, frozen=True):
    schema: str
    name: str
    oid: Number
    published: Number
    leaves: tuple[tuple[Number, Number, Number], ...]
    index: Number
    numbers: tuple[Number, ...]
    settings: Number
    is_read: bool
    is_told: bool
    held: str | None
    file: Number = 0
    columns: tuple[TableColumn, ...] = ()


class _Form(StoredForm, frozen=True):
    format: int
    life: str
    system: str
    database: str
    publication: str
    done: tuple[str, ...] = ()
    tables: tuple[_CapturedForm, ...] = ()
    renewing: bool = False
    chunk: Chunk | None = None
    writes: Number = 0

    def state(self) -> PostgresState:
        tables = (
            *(CapturedTable("", name, is_read=True, is_told=True) for name in self.done),
            *(CapturedTable(**msgspec.structs.asdict(table)) for table in self.tables),
        )
        who = self.life, self.system, self.database, self.publication
        return PostgresState(*who, tables, self.renewing, self.chunk, self.writes)
