"""The one interface between the coordinator and the storage of its cells.

A cell is a few KiB of bytes that change only by compare-and-set. There are six verbs, each with the weakest guarantee that the
coordinator needs. A backend translates foreign errors to the types named here and in `errors`, and nothing above it knows which table
it is. ``tests/coordinator/tables/contract.py`` is the executable form of this page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...log.errors import CallError, InvalidArgument, LimitExceeded, PenstockError
from ...log.limits import PATH_PART_BYTES_MAX
from ...log.stores.protocol import check_key
from ..limits import CELL_KEY_BYTES_MAX, CELL_STORED_BYTES_MAX


class TableNotFound(CallError, LookupError):
    """The coordination table does not exist, and is not made by itself."""

    kind = "table_not_found"


class TableMismatch(CallError):
    """The object under the table's name cannot hold cells."""

    kind = "table_mismatch"


@dataclass(frozen=True, slots=True)
class CellVersion:
    """A witness of one write of a cell; only a table makes them, and only to be handed back as ``expected``."""

    token: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it was read."""

    data: bytes
    version: CellVersion


@runtime_checkable
class CellTable(Protocol):
    """A place for cells. Keys are non-empty parts with ``/`` between them; no key may be the folder of another.

    The table is linearizable cell by cell: a write takes effect at one moment between call and return, and `get` sees every write that
    ended before it was called. No two writes have the same version, whatever their bytes, also after a delete.

    All methods may raise `StoreUnavailable` (throttled, locked, no answer; a write may have been carried out, or may be later),
    `PermissionDenied` and `StorageFull`. Reads retry passing faults by themselves, for a short while. Writes are tried exactly once, as
    a hidden second try could meet its own first one. A write that is not confirmed raises `Conflict`. Read the cell back then, and
    recognise your own write by the write id that you put into it.
    """

    @property
    def url(self) -> str:
        """The place of the cells, for people and error messages; without secrets."""
        ...

    lists_cheaply: bool
    """Whether `read_all` of a prefix reads no other cells, and tells those that changed without reading them."""

    async def get(self, key: str) -> Cell | None:
        """The cell, or None when there is none."""
        ...

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        """Write a cell if its version is still ``expected`` (None: if there is no such cell), durably.

        Raises `Conflict` when the write was not confirmed, `LimitExceeded` above 64 KiB.
        """
        ...

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        """Remove a cell if its version is still ``expected``. Raises `Conflict` when the removal was not confirmed."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """The keys of all cells that start with ``prefix`` (plain text), sorted. It may read the whole table: for operators only."""
        ...

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        """All cells whose keys start with one of these prefixes, each as it was at some moment since the call.

        Of a cell that still has its ``known`` version the table may give that version instead of the cell. Of a cell that cannot be read
        it gives the error. It may read the whole table: for operators only.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads. Later calls may raise `ClosedError`."""
        ...


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
    """Raise unless every table accepts a cell of this key and content."""
    check_cell_key(key)
    if len(data) > CELL_STORED_BYTES_MAX:
        raise LimitExceeded(
            "the cell is too large",
            operation="put",
            object=key,
            expected=f"at most {CELL_STORED_BYTES_MAX} bytes",
            observed=f"{len(data)} bytes",
        )
