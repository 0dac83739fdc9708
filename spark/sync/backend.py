"""The backend of a sync by Spark: its tasks fold, and Delta's JARs write the targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from ...cdc.changes import Key, Old
from ...cdc.fold.fold import Meet
from ...cdc.fold.folded import Truncate
from ...cdc.sync.backend import FoundChanges
from ...cdc.sync.local import FoundHere
from ...cdc.sync.options import Options
from ...cdc.sync.scan import Scan, Taken
from ...cdc.targets import Target
from .scan import pieces, rows_of, summary
from .tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkBackend:
    """Works by Spark. Small batches are folded in this process: starting tasks for them, and shuffling their results, costs more than the
    fold.
    """

    keeps_history = True
    merges_at_once = 1
    """One: a merge sets what it needs in the session, which all merges share."""

    def __init__(self, spark: SparkSession, options: Options) -> None:
        self._session = spark.newSession()
        self._events_in_driver = options.events_in_driver
        self.tables = Tables(self._session, options.into, guard=options.guard)

    def rows_of(self, rows: pa.Table) -> DataFrame:
        return frame_of(self._session, rows)

    def fold(self, scan: Scan, meet: Meet) -> FoundChanges:
        few = scan.events <= self._events_in_driver
        self.tables.expect(few_rows=few)
        return FoundInDriver(scan, meet, self._session) if few else FoundByTasks(scan, self._session)


class FoundByTasks:
    """The folds of one batch, which stay where the tasks made them."""

    def __init__(self, scan: Scan, session: SparkSession) -> None:
        self._scan = scan
        self._pieces = pieces(session, scan).persist()

    def summary(self) -> Taken:
        return summary(self._pieces)

    def rows(self, target: Target, truncate: Truncate | None, old: Mapping[Key, Old] | None) -> DataFrame:
        return rows_of(self._pieces, self._scan, target, truncate, old)

    def drop(self) -> None:
        self._pieces.unpersist()


class FoundInDriver:
    """The folds of one batch, in this process. Their rows are a DataFrame that needs no tasks."""

    def __init__(self, scan: Scan, meet: Meet, session: SparkSession) -> None:
        self._found = FoundHere(scan, meet)
        self._session = session

    def summary(self) -> Taken:
        return self._found.summary()

    def rows(self, target: Target, truncate: Truncate | None, old: Mapping[Key, Old] | None) -> DataFrame:
        return frame_of(self._session, self._found.rows(target, truncate, old))

    def drop(self) -> None:
        self._found.drop()


def frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows of this process, for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = rows if rows.num_rows else rows.schema.empty_table()  # Spark needs a chunk of every column
    return session.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
