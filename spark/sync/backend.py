"""The backend of a sync by Spark: its tasks fold, and Delta's JARs write the targets; this process does what is small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from ...cdc.changes import Key, Old
from ...cdc.delta.reach import Reach
from ...cdc.events.sources import Source
from ...cdc.fold.fold import Meet
from ...cdc.fold.folded import Truncate
from ...cdc.sync.backend import FoundChanges
from ...cdc.sync.local import FoundHere, at_once
from ...cdc.sync.options import Options
from ...cdc.sync.scan import Scan, Taken
from ...cdc.targets import Target
from .in_driver import InDriver
from .scan import ByTasks, pieces, rows_of, summary
from .tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkBackend:
    """Works by Spark. Small batches are folded in this process: starting tasks for them, and shuffling their results, costs more than the
    fold. Their rows go to small targets from here as well.
    """

    keeps_history = True

    def __init__(self, spark: SparkSession, options: Options) -> None:
        self._session = spark.newSession()
        self._events_in_driver = options.events_in_driver
        self.merges_at_once = options.merges_at_once or at_once()
        small = InDriver.of(self._session, options.into, guard=options.guard, bytes_max=options.target_bytes_in_driver)
        self.tables = Tables(self._session, options.into, guard=options.guard, small=small)

    def rows_of(self, rows: pa.Table) -> pa.Table:
        return rows

    def fold(self, scan: Scan, meet: Meet) -> FoundChanges:
        return FoundHere(scan, meet) if scan.events <= self._events_in_driver else FoundByTasks(scan, self._session)


class FoundByTasks:
    """The folds of one batch, which stay where the tasks made them."""

    def __init__(self, scan: Scan, session: SparkSession) -> None:
        self._scan = scan
        self._pieces = pieces(session, scan).persist()
        self._reach: Mapping[Source, Reach] = {}

    def summary(self) -> Taken:
        taken = summary(self._pieces)
        self._reach = taken.reach
        return taken

    def rows(self, target: Target, truncate: Truncate | None, old: Mapping[Key, Old] | None) -> ByTasks:
        return ByTasks(rows_of(self._pieces, self._scan, target, truncate, old), self._reach.get(target.source, {}))

    def drop(self) -> None:
        self._pieces.unpersist()
