"""Merges of few rows into small targets in the driver, by deltalake: some ten milliseconds, where Spark plans and commits for seconds.

The commits are those of the engine without Spark. Commits by Spark in the same driver, such as those of an OPTIMIZE beside the sync, wait
meanwhile: they are not put if absent, as deltalake's are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from ...cdc.delta.plain import Demands, bytes_in_reach, is_plain
from ...cdc.delta.tables import DeltaTables
from ...cdc.fold.folded import Truncate
from ...cdc.targets import Owner, Target
from ...log.errors import MissingDependency
from .jvm import can_lock, is_on_disk, without_commits

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession


class MergesInDriver:
    """The targets in one folder, as far as this process may merge into them."""

    @classmethod
    def of(cls, session: SparkSession, into: str, *, guard: bool, bytes_max: int) -> Self | None:
        """None where Spark has to make all merges: without deltalake; in a store, where nothing keeps Spark's commits out; or where threads of
        Python have no threads of the JVM of their own, which could hold a lock.
        """
        if bytes_max == 0 or not can_lock(session) or not is_on_disk(session, into):
            return None
        try:
            return cls(session, DeltaTables(into, guard=guard), bytes_max)
        except MissingDependency:
            return None

    def __init__(self, session: SparkSession, tables: DeltaTables, bytes_max: int) -> None:
        from deltalake.exceptions import CommitFailedError

        self._session = session
        self._tables = tables
        self._bytes_max = bytes_max
        self.lost = CommitFailedError
        """The error of a merge that another commit came before."""

    def merge(
        self, target: Target, rows: pa.Table, owner: Owner, *, truncate: Truncate | None = None, partial: bool = True
    ) -> bool | None:
        """Merge once, as `DeltaTables` does; None, and nothing is done, if the target is not for this process."""
        if target.history:
            return None
        with without_commits(self._session, self._tables.path(target.name)):
            table = self._opened(target.name)
            if table is None or self._in_reach(table, target, rows, truncate) > self._bytes_max:
                return None
            return self._tables.merge_into(table, target, rows, owner, truncate=truncate, partial=partial)

    def refusal(self, error: Exception) -> str | None:
        """Why a target did not take what it was given, in a line. None: it was not deltalake that said so, or not the target's fault."""
        return self._tables.refusal(error)

    def _opened(self, name: str) -> DeltaTable | None:
        """The newest version of a target; None if it is not plain, or unknown to deltalake. Then Spark says what there is to say."""
        from deltalake.exceptions import DeltaError

        try:
            table = self._tables.open(name)
        except DeltaError:
            return None
        return table if table is not None and is_plain(_demands(table)) else None

    def _in_reach(self, table: DeltaTable, target: Target, rows: pa.Table, truncate: Truncate | None) -> int:
        files = pa.table(table.get_add_actions(flatten=True))
        first = target.key[0]
        return bytes_in_reach(files, first, rows.column(first) if truncate is None else None)


def _demands(table: DeltaTable) -> Demands:
    protocol, metadata = table.protocol(), table.metadata()
    return Demands(
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset([*(protocol.reader_features or ()), *(protocol.writer_features or ())]),
        metadata.configuration,
        json.loads(table.schema().to_json())["fields"],
        bool(metadata.partition_columns),
    )
