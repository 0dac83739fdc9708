"""Target tables, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...log.errors import InvalidArgument, MissingDependency, StoreUnavailable, install_hint
from ..delta.location import Location
from ..delta.reader import open_table, query, schema_of
from ..target import decode_metadata

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_CURRENT = "__current"
"""Marks a row's newest version in a table with history."""


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """A Delta table as of its opening."""

    name: str
    table: DeltaTable

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.table)

    def columns(self) -> Sequence[str]:
        return self.schema.names

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows; in a table with history, the current ones. Raises `StoreUnavailable` for an unreadable file."""
        wanted = "*" if columns is None else ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in columns)
        sql = f"select {wanted} from t"  # noqa: S608 - names are quoted
        if _CURRENT in self.schema.names:
            sql += f" where {_CURRENT}"
        try:
            yield from query(self.table, sql)
        except Exception as error:  # the engine has no errors of its own
            raise _unreadable(self.table.table_uri, error) from error

    def key(self) -> tuple[str, ...]:
        """The primary key from the newest commit of a sync, or empty."""
        with _reading(self.table.table_uri):
            for commit in self.table.history():
                if (written := decode_metadata(commit.get("userMetadata"))) is not None:
                    return written.key
        return ()


def find_target(location: Location, name: str) -> DeltaRows | None:
    """Open a Delta table as it is now; None where there is none.

    Raises `MissingDependency` without deltalake, `StoreUnavailable` when it cannot be read.
    """
    with _reading(location.root):
        table = open_table(location)
        return None if table is None else DeltaRows(name, table)


def open_target(location: Location, name: str) -> DeltaRows:
    """The same, but raises `InvalidArgument` for a missing table."""
    if (found := find_target(location, name)) is None:
        raise InvalidArgument("there is no such target", operation="compare", object=location.root, expected="a Delta table")
    return found


@contextmanager
def _reading(object: str) -> Iterator[None]:
    try:
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise MissingDependency(
            "tables are read with deltalake, which is missing",
            operation="compare",
            hint=install_hint("delta"),
        ) from error
    try:
        yield
    except (DeltaError, OSError) as error:
        raise _unreadable(object, error) from error


def _unreadable(object: str, error: Exception) -> StoreUnavailable:
    observed = str(error).strip().partition("\n")[0][:300]
    return StoreUnavailable("the target cannot be read", operation="compare", object=object, observed=observed)
