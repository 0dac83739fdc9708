"""`penstock.at_cut`: the tables of a cut, by deltalake."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...log.errors import MissingDependency, StoreUnavailable, install_hint
from ..delta.commit_history import TableCommit
from ..delta.deltalake_targets import commits_of
from ..delta.location import Location
from ..delta.reader import open_table, plain_schema_of, rows_of
from .cut_history import Which, kept_cuts
from .versions import CurrentVersion, CutTables

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_GONE = "not found"


class DeltalakeReader:
    """Tables read by deltalake."""

    def __init__(self, into: str) -> None:
        """Raises `MissingDependency`."""
        try:
            import deltalake  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise MissingDependency(
                "tables are read with deltalake, which is missing",
                operation="at_cut",
                hint=install_hint("delta"),
            ) from error
        self._into = Location.of(into.replace("s3a://", "s3://", 1))

    def path(self, name: str) -> str:
        return self._into.inside(name).root

    def newest(self, name: str) -> CurrentVersion | None:
        table = self.table(name)
        return None if table is None else CurrentVersion(table.version(), str(table.metadata().id))

    def table(self, name: str, version: int | None = None) -> DeltaTable | None:
        """The newest version by default. Raises `StoreUnavailable`."""
        from deltalake.exceptions import DeltaError

        try:
            return open_table(self._into.inside(name), version)
        except (DeltaError, OSError) as error:
            if version is not None and self.table(name) is not None:
                return None  # the table is there, and its log has this version no more
            raise _unreadable(self.path(name), error) from error

    def files(self, name: str, version: int) -> Collection[str] | None:
        from deltalake.exceptions import DeltaError

        if (table := self.table(name, version)) is None:
            return None
        try:
            for _ in table.deletion_vectors():  # in files of their own, whose names deltalake does not tell
                pass
        except DeltaError as error:
            if _GONE in str(error).lower():
                return None
            raise _unreadable(self.path(name), error) from error
        return {uri.rpartition("/")[2] for uri in table.file_uris()}

    def commits(self, name: str) -> Iterable[TableCommit]:
        table = self.table(name)
        return () if table is None else commits_of(table)


class AtCut(CutTables[DeltalakeReader, "pa.Table"]):
    """The tables of a cut, read on demand."""

    def __getitem__(self, table: str) -> pa.Table:
        """The rows of a table. Raises `TableNotInCut`, `CutTooOld` or `StoreUnavailable`."""
        return self.batches(table).read_all()

    def batches(self, table: str) -> pa.RecordBatchReader:
        """The rows of a table, some thousand at a time, for one larger than memory. Raises as the table itself does."""
        import pyarrow as pa

        found = self.delta_table(table)
        schema = plain_schema_of(found)
        return pa.RecordBatchReader.from_batches(schema, self._rows(found, schema))

    def delta_table(self, table: str) -> DeltaTable:
        """The table as deltalake has it, at its version. Raises `TableNotInCut` or `CutTooOld`.

        Read it by deltalake's ``QueryBuilder``: its ``to_pyarrow_table`` and ``to_pandas`` show NULL in columns that Spark has mapped.
        """
        found = self._tables.table(table, self.version(table))
        assert found is not None, "it was readable"
        return found

    @staticmethod
    def _rows(table: DeltaTable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows_of(table, schema)
        except Exception as error:  # the engine has no errors of its own
            raise _unreadable(table.table_uri, error) from error


def _unreadable(table: str, error: Exception) -> StoreUnavailable:
    observed = str(error).strip().partition("\n")[0][:300]
    return StoreUnavailable("the table cannot be read", operation="at_cut", object=table, observed=observed)


def at_cut(into: str | os.PathLike[str], cut: Which = "latest", *, sync: str | None = None) -> AtCut:
    """All tables that a sync writes into a folder, as of one cut: they equal the source at one place of its log, between two transactions.

    - ``into``: the sync's folder, a path or a URL as `penstock.sync` takes it.
    - ``cut``: ``"latest"``, a number, or a time: the newest cut with nothing that the source committed later.
    - ``sync``: the sync's name, where several have recorded cuts there.

    A mapping of tables by name, read by deltalake (the extra ``delta``) into Arrow tables. Raises `NoCut`, and `CutTooOld` for a cut no
    longer kept. A table raises `TableNotInCut` if it came later or stood still, and `CutTooOld` if its version has been removed.
    """
    place = folder_of(into)
    kept = kept_cuts(place, sync=sync, latest_only=cut == "latest")
    return AtCut(kept, kept.find(cut), DeltalakeReader(place))


def folder_of(into: str | os.PathLike[str]) -> str:
    folder = os.fspath(into)
    return folder if "://" in folder else str(Path(folder).expanduser().absolute())
