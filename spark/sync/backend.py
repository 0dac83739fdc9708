"""The backend of a sync by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from ...cdc.changes import Key, TargetRow
from ...cdc.delta.key_ranges import KeyRanges
from ...cdc.events.sources import TableId
from ...cdc.fold.fold import TargetResolver
from ...cdc.fold.fold_result import LastTruncate
from ...cdc.sync.backends.backend import FoldedBatch
from ...cdc.sync.backends.fold_tasks import FoldInput, FoldOutput
from ...cdc.sync.backends.local import LocalFoldedBatch, at_once
from ...cdc.sync.plan import SyncPlan
from ...cdc.target import Target
from .driver_targets import DriverTargets
from .fold_tasks import TaskRows, pieces, rows_of, summary
from .tables import SparkTargets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkBackend:
    """Works by Spark. Small batches are folded and merged in this process."""

    keeps_history = True

    def __init__(self, spark: SparkSession, plan: SyncPlan) -> None:
        self._session = spark.newSession()
        self._events_in_driver = plan.options.events_in_driver
        self.merges_at_once = plan.options.merges_at_once or at_once()
        driver_targets = DriverTargets.of(
            self._session, plan.into, by_position=plan.by_position, bytes_max=plan.options.target_bytes_in_driver
        )
        self.tables = SparkTargets(self._session, plan.into, by_position=plan.by_position, driver_targets=driver_targets)

    def rows_of(self, rows: pa.Table) -> pa.Table:
        return rows

    def fold(self, fold_input: FoldInput, resolve_target: TargetResolver) -> FoldedBatch:
        if fold_input.events <= self._events_in_driver:
            return LocalFoldedBatch(fold_input, resolve_target)
        return SparkFoldedBatch(fold_input, self._session)


class SparkFoldedBatch:
    """The folds of one batch, kept by the tasks that made them."""

    def __init__(self, fold_input: FoldInput, session: SparkSession) -> None:
        self._input = fold_input
        self._pieces = pieces(session, fold_input).persist()
        self._reach: Mapping[TableId, KeyRanges] = {}

    def summary(self) -> FoldOutput:
        output = summary(self._pieces)
        self._reach = output.reach
        return output

    def rows(self, target: Target, truncate: LastTruncate | None, old: Mapping[Key, TargetRow] | None) -> TaskRows:
        return TaskRows(rows_of(self._pieces, self._input, target, truncate, old), self._reach.get(target.source, {}))

    def drop(self) -> None:
        self._pieces.unpersist()
