"""Targets written by deltalake in the driver: in some ten milliseconds instead of Spark's seconds.

Spark's commits in the same driver wait meanwhile: they are not put if absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from ...cdc.changes import Key, TargetRow
from ...cdc.delta.compaction import NOTHING, TargetCompactionResult
from ...cdc.delta.deltalake_targets import DeltalakeTargets, existing_target_of
from ...cdc.delta.key_ranges import key_ranges_of, table_of
from ...cdc.delta.plain_tables import WriterRequirements, bytes_in_reach, is_plain
from ...cdc.fold.fold_result import LastTruncate
from ...cdc.target import ExistingTarget, Target, TargetOwner, TargetProgress
from ...log.errors import MissingDependency
from .jvm import can_lock, is_on_disk, look_anew, without_commits

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

_OF_NEW = "spark.databricks.delta.properties.defaults."


class DriverTargets:
    """The targets in one folder that this process may write. A result of None leaves the work to Spark, with nothing done."""

    @classmethod
    def of(cls, session: SparkSession, into: str, *, by_position: bool, bytes_max: int) -> Self | None:
        """None without deltalake, in a store, where Spark's commits cannot be kept out, or where Python's threads have no JVM threads to
        hold a lock.
        """
        if bytes_max == 0 or not can_lock(session) or not is_on_disk(session, into):
            return None
        try:
            return cls(session, DeltalakeTargets(into, by_position=by_position), bytes_max)
        except MissingDependency:
            return None

    def __init__(self, session: SparkSession, tables: DeltalakeTargets, bytes_max: int) -> None:
        from deltalake.exceptions import CommitFailedError

        self._session = session
        self._tables = tables
        self._bytes_max = bytes_max
        self._asked_of_new = any(name.startswith(_OF_NEW) for name, _ in session.sparkContext.getConf().getAll())
        """Whether the session has defaults for new tables."""
        self.lost = CommitFailedError

    def find(self, name: str) -> ExistingTarget | None:
        table = self._plain(self._tables.open, name)
        return None if table is None else existing_target_of(table)

    def last_merge(self, name: str, owner: TargetOwner) -> tuple[int, TargetProgress] | None:
        return self._tables.last_merge(name, owner)

    def create(self, target: Target, owner: TargetOwner) -> bool | None:
        """True once the target is there."""
        path = Path(self._tables.path(target.name))
        if target.history or self._asked_of_new:
            return None
        with without_commits(self._session, str(path)):
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                return None
            self._tables.create(target, owner)
        look_anew(self._session, str(path))
        return True

    def rows(self, target: Target, keys: Sequence[Key]) -> dict[Key, TargetRow] | None:
        table = self._plain(self._tables.open, target.name)
        if table is None or bytes_in_reach(_files(table), key_ranges_of(table_of(target, keys), target.key)) > self._bytes_max:
            return None
        return self._tables.rows_of(table, target, keys)

    def merge(
        self, target: Target, rows: pa.Table, owner: TargetOwner, *, truncate: LastTruncate | None = None, partial: bool = True
    ) -> bool | None:
        if target.history:
            return None
        with without_commits(self._session, self._tables.path(target.name)):
            table = self._plain(self._tables.current_table, target.name)
            reach = key_ranges_of(rows, target.key) if truncate is None else {}
            if table is None or bytes_in_reach(_files(table), reach) > self._bytes_max:
                return None
            return self._tables.merge_into(table, target, rows, owner, truncate=truncate, partial=partial)

    def compact(self, name: str) -> TargetCompactionResult | None:
        """Compact a target's small files, while merges wait."""
        with without_commits(self._session, self._tables.path(name)):
            table = self._plain(self._tables.open, name)
            if table is None or bytes_in_reach(_files(table), {}) > self._bytes_max:
                return None
            return self._tables.compacted(table) or NOTHING

    def refusal(self, error: Exception) -> str | None:
        return self._tables.refusal(error)

    def _plain(self, opened: Callable[[str], DeltaTable | None], name: str) -> DeltaTable | None:
        """The newest version of a target; None if it is not plain, or unknown to deltalake."""
        from deltalake.exceptions import DeltaError

        try:
            table = opened(name)
        except DeltaError:
            return None
        return table if table is not None and is_plain(_demands(table)) else None


def _files(table: DeltaTable) -> pa.Table:
    return pa.table(table.get_add_actions(flatten=True))


def _demands(table: DeltaTable) -> WriterRequirements:
    protocol, metadata = table.protocol(), table.metadata()
    return WriterRequirements(
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset([*(protocol.reader_features or ()), *(protocol.writer_features or ())]),
        metadata.configuration,
        json.loads(table.schema().to_json())["fields"],
        bool(metadata.partition_columns),
    )
