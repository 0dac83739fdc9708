"""Target tables, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...log.errors import InvalidArgument, MissingDependency, StoreUnavailable
from ..delta.location import Location
from ..delta.reader import open_table, query, schema_of
from ..targets import decode_metadata

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_CURRENT = "__current"
"""The column by which a table with history marks the newest version of a row."""


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """A Delta table as it was when it was opened."""

    name: str
    table: DeltaTable

    @property
    def schema(self) -> pa.Schema:
        """The schema of its columns."""
        return schema_of(self.table)

    def columns(self) -> Sequence[str]:
        """The names of its columns."""
        return self.schema.names

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows; in a table with history, the current ones. Raises `StoreUnavailable` when a file of it cannot be read."""
        wanted = "*" if columns is None else ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in columns)
        sql = f"select {wanted} from t"  # noqa: S608 - names are quoted
        if _CURRENT in self.schema.names:
            sql += f" where {_CURRENT}"
        try:
            yield from query(self.table, sql)
        except Exception as error:  # the engine has no errors of its own
            raise _unreadable(self.table.table_uri, error) from error

    def key(self) -> tuple[str, ...]:
        """The primary key from the newest commit of a sync; empty when there is none."""
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
    """Open a Delta table as `find_target` does. Raises `InvalidArgument` when there is none."""
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
            hint="Install it with `pip install 'penstock[delta]'`",
        ) from error
    try:
        yield
    except (DeltaError, OSError) as error:
        raise _unreadable(object, error) from error


def _unreadable(object: str, error: Exception) -> StoreUnavailable:
    observed = str(error).strip().partition("\n")[0][:300]
    return StoreUnavailable("the target cannot be read", operation="compare", object=object, observed=observed)
