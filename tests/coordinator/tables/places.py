"""Where the tables of these tests lie: every kind, opened as often as a test needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.coordinator.tables import CellTable, MemoryTable, ObjectStoreTable, open_table
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore, ObjectStore, open_store
from tests.postgres_server import PostgresServer


class Place(Protocol):
    """A place for cells, empty at the start of a test."""

    @property
    def one_for_all(self) -> bool:
        """Whether threads use one table together, instead of one each."""
        ...

    def open(self) -> CellTable:
        """A table over it; several may be open."""
        ...


@dataclass(frozen=True)
class InMemory:
    """One table that all share."""

    table: MemoryTable = field(default_factory=MemoryTable)
    one_for_all = True

    def open(self) -> CellTable:
        return self.table


@dataclass(frozen=True)
class InMemoryStore:
    """One store that all share."""

    store: MemoryStore = field(default_factory=MemoryStore)
    one_for_all = False

    def open(self) -> CellTable:
        return open_table("store", store=self.store, runtime=Runtime())


@dataclass(frozen=True)
class InStore:
    """The object store of a lake; other processes can open it too."""

    lake: str
    options: dict[str, str] = field(default_factory=dict)
    reads_tear: bool = False
    """Whether a read may give newer data with an older version. A write on that version is refused, though the cell holds the data."""
    one_for_all = False

    def open(self) -> CellTable:
        return _WithStore(open_store(self.lake, options=self.options))


class _WithStore(ObjectStoreTable):
    """Owns its store, which is the lake's otherwise."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store, runtime=Runtime())
        self._owned = store

    async def close(self) -> None:
        await super().close()
        await self._owned.close()


@dataclass(frozen=True)
class AtUrl:
    """A table that has a URL of its own; other processes can open it too."""

    url: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def one_for_all(self) -> bool:
        return self.url.startswith("dynamodb://")  # its clients take half a second each, and are made for threads

    def open(self) -> CellTable:
        return open_table(self.url, store=MemoryStore(), runtime=Runtime(), options=self.options)


def sqlite_place(folder: Path) -> AtUrl:
    return AtUrl("sqlite" + (folder / "coordination.db").as_uri().removeprefix("file"))


def postgres_place(server: PostgresServer, table: str) -> AtUrl:
    """A table that nobody has made."""
    return AtUrl(f"{server.dsn}?table={table}&timeout_s=10")
