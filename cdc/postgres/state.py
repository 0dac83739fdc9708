"""What a capture keeps besides its topic: its identity, and the progress of its snapshot. One small object, written by compare-and-set.

The stream's progress is not in it: the producer's last sequence and the slot's confirmed place tell that.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import msgspec

from ...log.errors import FencedError
from ...log.format.stored_json import Number, StoredForm, parse_stored
from ...log.paths import topic_folder
from ...log.stores.protocol import ObjectStore, Put
from ..capture.state_object import AsyncRunner, StateObject
from ..events.table_types import CAPTURES, TableTypes, types_key

FORMAT = 2
_NAMES_ONLY = 1
"""The format of releases that kept the names of tables that were read, and nothing else of them."""
_TAKE_OVERS_MAX = 5
"""How often a state is read again that an earlier process wrote meanwhile."""


class TableColumn(NamedTuple):
    """A column of a table. Its number is never another's."""

    number: int
    changed: int
    """The transaction that changed its definition last."""
    type: int
    """The OID of its type."""
    modifier: int
    name: str
    """Empty: its values are generated, and no event has them."""


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table of the topic, by the name that its events have there."""

    schema: str
    """Empty in what an earlier release kept: there the name has the schema in it."""
    name: str
    oid: int = 0
    published: int = 0
    """The OID of its place in the publication."""
    leaves: tuple[tuple[int, int, int], ...] = ()
    """The OIDs of its partitions, with the numbers of their files and the transactions that attached them."""
    index: int = 0
    """The OID of the index that tells its rows apart."""
    numbers: tuple[int, ...] = ()
    """The numbers of the key's columns."""
    settings: int = 0
    """The transaction that set what the publication tells of its tables."""
    file: int = 0
    """The number of its file, which changes when its rows are written anew; 0: it has partitions."""
    columns: tuple[TableColumn, ...] = ()
    """The columns that it has and had; none in what an earlier release kept."""
    is_read: bool = False
    """Whether its rows are in the topic, or were not wanted, so that its changes follow."""
    is_told: bool = False
    """Whether the topic may have rows of this name already: they are emptied before its rows come."""
    held: str | None = None
    """Why it is not captured any more; None: it is."""

    @property
    def is_missing(self) -> bool:
        """Whether its rows are to be read."""
        return not self.is_read and self.held is None

    @property
    def named(self) -> tuple[str, str]:
        """The name with its schema."""
        return self.schema, self.name

    @property
    def qualified(self) -> str:
        """The name with its schema, for people."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table that were read together and are sent as one batch. Written before the batch is sent."""

    table: str
    after: tuple[str, ...] | None
    """The key behind which it begins; None: it begins with the first row."""
    last: tuple[str, ...] | None
    """The key of its last row; None: it is empty."""
    start: int
    """The first sequence."""
    end: int
    """The last sequence: the producer's name has it, or nothing of the chunk is there."""
    oid: int = 0
    """The table's own; 0 in what an earlier release kept."""


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The state of one slot and one topic."""

    life: str
    """The life of the topic, which may be deleted and made anew."""
    system: str
    database: str
    publication: str
    tables: tuple[CapturedTable, ...] = ()
    renewing: bool = False
    """Whether the snapshot is not the first: then tables are emptied before their rows come."""
    chunk: Chunk | None = None
    writes: int = field(default=0, compare=False)
    """The number of the write. So no two states have the same bytes, for which stores would give them the same version."""

    @property
    def done(self) -> tuple[str, ...]:
        """The tables whose changes follow, for people."""
        return tuple(table.qualified for table in self.tables if table.is_read)

    def settled(self, last_sequence: int) -> CaptureState:
        """The state in which the chunk is there, by what the producer's name has before anything else is sent under it: later on a chunk
        that never came would seem to be there.
        """
        chunk = self.chunk
        if chunk is None or last_sequence >= chunk.end:
            return self
        if chunk.after is None:
            return replace(self, chunk=None)
        return replace(self, chunk=replace(chunk, last=chunk.after, start=last_sequence, end=last_sequence))

    def planned(self, tables: Iterable[CapturedTable], *, stopping: Container[tuple[str, str]]) -> CaptureState:
        """The state with the tables that there are now. Those that are ``stopping`` are to be told of first. A chunk stays if its table is the
        one that it was.
        """
        before, chunk = {table.named: table for table in self.tables}, self.chunk
        now = tuple(before.get(table.named, replace(table, held=None)) if table.named in stopping else table for table in tables)
        if chunk is not None and not chunk.oid:  # of an earlier release
            found = [table for table in now if table.qualified == chunk.table]
            chunk = replace(chunk, oid=found[0].oid) if len(found) == 1 else None
            told = () if chunk is not None else {table.named for table in found}
            now = tuple(replace(table, is_told=True) if table.named in told else table for table in now)
        elif chunk is not None:
            kept = [table for table in now if table.oid == chunk.oid and table.is_missing and before.get(table.named) == table]
            chunk = chunk if kept else None
        return replace(self, tables=now, chunk=chunk)

    @property
    def has_begun(self) -> bool:
        """Whether anything may be in the topic."""
        return any(table.is_read for table in self.tables) or self.chunk is not None


class StateStore:
    """Reads and writes the object. Only the process that read or wrote it last may write it next."""

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str, slot: str) -> None:
        self._store, self._run = store, run
        self._folder = f"{CAPTURES}{topic_folder(topic)}/"
        self._object = StateObject(store, run, f"{self._folder}{slot}.json")
        self._writes = 0

    @property
    def key(self) -> str:
        """The key of the state."""
        return self._object.key

    def load(self) -> CaptureState | None:
        """The stored state. Raises `DataDamaged`, `NewerFormatError`."""
        data = self._object.read()
        state = None if data is None else parse_state(data, self.key)
        self._writes = 0 if state is None else state.writes
        return state

    def take_over(self) -> CaptureState | None:
        """The stored state, written anew. So a write of an earlier process that got no answer, and may still be on its way, never fits any more.

        It might tell of a chunk that was never sent, and seem to be right once other events have its sequences. Raises as `load` and `save` do.
        """
        for left in reversed(range(_TAKE_OVERS_MAX)):
            state = self.load()
            if state is None:
                break
            try:
                self.save(state)
            except FencedError:  # the earlier process's has just arrived
                if not left:
                    raise
            else:
                return state
        return None

    def others(self) -> dict[str, CaptureState]:
        """The states of other slots' captures into this topic. Raises as `load` does."""
        found: dict[str, CaptureState] = self._run(self._others)
        return found

    async def _others(self) -> dict[str, CaptureState]:
        others = [key for key in await state_keys(self._store, self._folder) if key != self.key]
        return {
            key.removeprefix(self._folder).removesuffix(".json"): parse_state((await self._store.get(key)).data, key)
            for key in others
        }

    def save(self, state: CaptureState) -> None:
        """Replace the stored state. Raises `FencedError` when another capture has written it meanwhile."""
        state = replace(state, writes=self._writes + 1)
        self._object.write(json.dumps({"format": FORMAT, **asdict(state)}, separators=(",", ":")).encode())
        self._writes = state.writes


async def state_keys(store: ObjectStore, folder: str = CAPTURES) -> list[str]:
    """The keys of the states of captures: of a topic by its folder, or of all."""
    return [one.key for one in await store.list(folder) if slot_of(one.key) is not None]


def slot_of(key: str) -> str | None:
    """The slot whose state a key has, ``captures/TOPIC/SLOT.json``; None: it is no such key."""
    name = key.removeprefix(CAPTURES)
    return name.partition("/")[2].removesuffix(".json") if name.endswith(".json") and name.count("/") == 1 else None


class TypesStore:
    """Keeps the types of tables' columns where syncs find them."""

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str) -> None:
        self._store, self._run, self._topic = store, run, topic
        self._kept: set[str] = set()

    def keep(self, types: TableTypes) -> None:
        """Return when the object is there. Whatever stands under its name is of the same content, so it is put without a condition."""
        if types.name not in self._kept:
            key = types_key(self._topic, types.name)
            self._run(lambda: self._store.put(key, types.data, mode=Put.REPLACE))
            self._kept.add(types.name)


class _ChunkForm(StoredForm, frozen=True):
    table: str
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    start: Number
    end: Number
    oid: Number = 0


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
    chunk: _ChunkForm | None = None
    writes: Number = 0


def parse_state(data: bytes, where: str) -> CaptureState:
    """The state of a capture. Raises `DataDamaged`, `NewerFormatError`."""
    form = parse_stored(data, _Form, what="the state of a capture", where=where, operation="capture", formats=(_NAMES_ONLY, FORMAT))
    found = form.chunk
    return CaptureState(
        life=form.life,
        system=form.system,
        database=form.database,
        publication=form.publication,
        tables=(
            *(CapturedTable("", name, is_read=True, is_told=True) for name in form.done),
            *(CapturedTable(**msgspec.structs.asdict(one)) for one in form.tables),
        ),
        renewing=form.renewing,
        chunk=None if found is None else Chunk(**msgspec.structs.asdict(found)),
        writes=form.writes,
    )
