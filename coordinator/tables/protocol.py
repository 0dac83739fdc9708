"""The interface to the storage of cells, with the weakest guarantees that the coordinator needs.

A cell is a few KiB of bytes that change only by compare-and-set. ``tests/coordinator/tables/contract.py`` is the executable form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ...log.errors import CallError, InvalidArgument, LimitExceeded, PenstockError
from ...log.limits import PATH_PART_BYTES_MAX
from ...log.stores.protocol import check_key
from ..limits import CELL_KEY_BYTES_MAX, CELL_STORED_BYTES_MAX


class TableNotFound(CallError, LookupError):
    """The coordination table is missing."""

    kind = "table_not_found"


class TableMismatch(CallError):
    """The object under the table's name cannot hold cells."""

    kind = "table_mismatch"


class CoordinationMismatch(CallError):
    """The lake's consumer groups are in another coordination table than the one that was named."""

    kind = "coordination_mismatch"


class CellVersion(Struct, frozen=True):
    """A witness of one write of a cell."""

    token: str


class Cell(Struct, frozen=True):
    """A cell as it was read."""

    data: bytes
    version: CellVersion


@runtime_checkable
class CellTable(Protocol):
    """A place for cells. Keys are non-empty parts with ``/`` between them; no key may be the folder of another.

    The table is linearizable cell by cell: a write takes effect at one moment between call and return, and `get` sees every write that ended before.
    No two writes have the same version, also after a delete.

    All methods may raise `StoreUnavailable` (a write may have been carried out, or may be later), `PermissionDenied` and `StorageFull`. Reads retry
    passing faults for a short while. Writes are tried once. After `Conflict` a write is not confirmed: read the cell, which shows your write by its
    write id.
    """

    @property
    def url(self) -> str:
        """Without secrets."""
        ...

    lists_cheaply: bool
    """Whether `read_all` finds changed cells without reading others."""

    async def get(self, key: str) -> Cell | None: ...

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        """Write a cell durably if its version is ``expected`` (None: if it is missing).

        Raises `Conflict`, and `LimitExceeded` above 64 KiB.
        """
        ...

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        """Remove a cell if its version is ``expected``. Raises `Conflict`."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """The sorted keys with this prefix. May read the whole table."""
        ...

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        """All cells with one of these prefixes, each as at some moment since the call. May read the whole table.

        A cell unchanged since its ``known`` version may be given as that version, an unreadable one as its error.
        """
        ...

    async def close(self) -> None:
        """Later calls may raise `ClosedError`."""
        ...


Told: TypeAlias = Callable[[CellVersion | PenstockError], None]
"""Hears of a put: the cell's new version, or the error that `CellTable.put` raises. Called once, by the event loop."""
BeginPut: TypeAlias = Callable[[str, bytes, CellVersion | None, Told], None]


def begin_put_of(table: CellTable) -> BeginPut | None:
    """The table's way to put without a coroutine and its turns of the event loop, if it has one: ``begin_put(key, data, expected, told)``."""
    return getattr(table, "begin_put", None)


@lru_cache(maxsize=1_024)  # a cell is written under one key again and again
def check_cell_key(key: str) -> None:
    """Raise `InvalidArgument` or `LimitExceeded` unless every table accepts ``key``."""
    check_key(key)
    if not key.isprintable():
        raise InvalidArgument("a cell's key must be visible characters", object=repr(key))
    size_bytes = len(key.encode())
    part_bytes = max(len(part.encode()) for part in key.split("/"))
    if size_bytes > CELL_KEY_BYTES_MAX or part_bytes > PATH_PART_BYTES_MAX:
        raise LimitExceeded(
            "the cell's key is too long",
            object=key,
            expected=f"at most {CELL_KEY_BYTES_MAX} bytes, {PATH_PART_BYTES_MAX} in a part",
            observed=f"{size_bytes} bytes, {part_bytes} in its longest part",
        )


def check_cell(key: str, data: bytes) -> None:
    check_cell_key(key)
    if len(data) > CELL_STORED_BYTES_MAX:
        raise LimitExceeded(
            "the cell is too large",
            operation="put",
            object=key,
            expected=f"at most {CELL_STORED_BYTES_MAX} bytes",
            observed=f"{len(data)} bytes",
        )
