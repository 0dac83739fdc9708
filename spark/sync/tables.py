"""Target tables by Spark, with one MERGE a batch, applied once.

Every commit has the sync and the target's progress, and Delta's ``txn`` with a number that grows with it. `driver_targets.py`
commits alike without Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ...cdc.changes import Key, TargetRow
from ...cdc.delta.commit_history import RECENT_COMMITS, TableCommit, newest_commit, newest_of
from ...cdc.delta.commit_retry import commit_with_retry, one_line
from ...cdc.delta.compaction import TargetCompactionResult, file_bytes
from ...cdc.delta.key_ranges import key_ranges_of, table_of
from ...cdc.delta.merge_sql import COLUMN_POSITIONS, PUT, apply_condition, truncate_condition
from ...cdc.events.target_types import innermost, parse_target_type
from ...cdc.fold.fold_result import LastTruncate
from ...cdc.target import (
    APP_ID,
    CURRENT,
    OP,
    POSITION,
    PROPERTY,
    VALID_FROM,
    VALID_TO,
    CommitMetadata,
    ExistingTarget,
    Target,
    TargetColumn,
    TargetOwner,
    TargetProgress,
    encode_metadata,
)
from ...log.errors import InvalidArgument
from ...log.schema.fields import PrimitiveType
from .driver_targets import DriverTargets
from .fold_tasks import TaskRows
from .history import history_source, merge_history
from .key_ranges import key_condition, quoted
from .sessions import SessionPool

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_PARTITIONS = "spark.sql.shuffle.partitions"
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"
_LARGEST, _SMALL = "spark.databricks.delta.optimize.maxFileSize", "spark.databricks.delta.optimize.minFileSize"
_UNPLANNED_ROWS_MAX = 50_000
"""The most rows that cost less than their planning."""
_MAPPING = "delta.columnMapping.mode"
_LOCAL_TIMES = "delta.feature.timestampNtz"
_MAPPED = re.compile(r"[ ,;{}()\n\t=]")
_DELTA_SAYS = re.compile(r"org\.apache\.spark\.sql\.delta\.[\w.$]*Exception: (.+)")
_TASK_SAYS = re.compile(r"^(?:[\w.]*\.)?Unfit: (.+)$", re.MULTILINE)


class SparkTargets:
    """The targets in one folder. Threads may merge into different ones at once."""

    def __init__(self, session: SparkSession, into: str, *, by_position: bool, driver_targets: DriverTargets | None) -> None:
        self._session = session
        self._sessions = SessionPool(session)
        self._into = into.rstrip("/")
        self._by_position = by_position
        self._driver_targets = driver_targets

    def path(self, name: str) -> str:
        return f"{self._into}/{name}"

    def exists(self, name: str) -> bool:
        from delta.tables import DeltaTable

        return DeltaTable.isDeltaTable(self._session, self.path(name))

    def find(self, name: str) -> ExistingTarget | None:
        found = None if self._driver_targets is None else self._driver_targets.find(name)
        return self._find(name) if found is None else found

    def _find(self, name: str) -> ExistingTarget | None:
        from delta.tables import DeltaTable

        path = self.path(name)
        if not DeltaTable.isDeltaTable(self._session, path):
            return None
        table = DeltaTable.forPath(self._session, path)
        columns, others = [], []
        for one in table.toDF().schema.fields:
            try:
                columns.append(TargetColumn(one.name, parse_target_type(one.dataType.simpleString())))
            except InvalidArgument:
                others.append(one.name)
        theirs = tuple(column for column in columns if not column.name.startswith("__"))
        others += [column.name for column in columns if column.name.startswith("__")]
        return ExistingTarget(theirs, frozenset(others), self._written(table))

    def written(self, name: str) -> CommitMetadata | None:
        from delta.tables import DeltaTable

        return self._written(DeltaTable.forPath(self._session, self.path(name)))

    def _written(self, table: DeltaTable) -> CommitMetadata | None:
        if (found := newest_commit(commits_of(table.history(RECENT_COMMITS)))) is not None:
            return found
        (detail,) = table.detail().select("properties").collect()
        return newest_commit(commits_of(table.history()), detail.properties.get(PROPERTY))

    def newest_of(self, name: str, owner: TargetOwner, *, anew: bool = False) -> tuple[int, TargetProgress] | None:
        """The newest version with the rows of the owner's newest commit, and that commit's progress; None: unknown from the
        log. Unless ``anew``, it may be this object's last commit.
        """
        from delta.tables import DeltaTable

        made = None if self._driver_targets is None or anew else self._driver_targets.last_merge(name, owner)
        if made is not None:
            return made
        table = DeltaTable.forPath(self._session, self.path(name))
        return newest_of(commits_of(table.history(RECENT_COMMITS)), owner) or newest_of(commits_of(table.history()), owner)

    def id_of(self, name: str) -> str | None:
        """The id of a table: one made under its name later has another."""
        from delta.tables import DeltaTable

        return id_of(DeltaTable.forPath(self._session, self.path(name))) if self.exists(name) else None

    def create(self, target: Target, owner: TargetOwner) -> None:
        from delta.tables import DeltaTable

        mapped = _to_be_mapped(target.columns)
        if self._driver_targets is not None and not mapped and self._driver_targets.create(target, owner):
            return
        with self._sessions.borrow({_METADATA: encode_metadata(owner, target)}) as session:
            builder = DeltaTable.createIfNotExists(session).location(self.path(target.name))
            builder = builder.property(PROPERTY, encode_metadata(owner, target))
            if mapped:
                builder = builder.property(_MAPPING, "name")
            for name, kind in self._wanted(target):
                builder = builder.addColumn(name, kind)
            builder.execute()

    def _wanted(self, target: Target) -> list[tuple[str, str]]:
        own = [(POSITION, "bigint")] if self._by_position or target.history else []
        if target.history:
            own += [(OP, "string"), (VALID_FROM, "timestamp"), (VALID_TO, "timestamp"), (CURRENT, "boolean")]
        return [(column.name, str(column.type)) for column in target.columns] + own

    def add_columns(self, target: Target, columns: Sequence[TargetColumn]) -> None:
        """Give a target missing columns. The commit has no progress, so progress does not hold it up."""
        named = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
        table = f"delta.{quoted(self.path(target.name))}"
        if _to_be_mapped((*target.columns, *columns)):  # also tables that deltalake made without a mapping
            self._session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{_MAPPING}' = 'name')")
        if any(innermost(column.type) is PrimitiveType.TIMESTAMP_NTZ for column in columns):  # new tables get it by themselves
            self._session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{_LOCAL_TIMES}' = 'supported')")
        self._session.sql(f"ALTER TABLE {table} ADD COLUMNS ({named})")

    def widen(self, target: Target, columns: Sequence[TargetColumn]) -> None:
        """Widen columns without rewriting them, by Delta's type widening. Readers have to know it."""
        table = f"delta.{quoted(self.path(target.name))}"
        self._session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        for column in columns:
            self._session.sql(f"ALTER TABLE {table} ALTER COLUMN {quoted(column.name)} TYPE {column.type}")

    def rows(self, target: Target, keys: Sequence[Key]) -> dict[Key, TargetRow]:
        found = None if self._driver_targets is None else self._driver_targets.rows(target, keys)
        return self._rows(target, keys) if found is None else found

    def _rows(self, target: Target, keys: Sequence[Key]) -> dict[Key, TargetRow]:
        listed = table_of(target, keys)
        wanted = self._session.createDataFrame(listed)
        table = (
            self._session.read.format("delta").load(self.path(target.name)).where(key_condition(key_ranges_of(listed, target.key)))
        )
        names = [*(quoted(column.name) for column in target.columns), *([POSITION] if self._by_position else [])]
        found = table.join(wanted, list(target.key), "left_semi").select(*names)
        values = (tuple(column) for column in zip(*(one.to_pylist() for one in found.toArrow().columns), strict=True))
        width = len(target.columns)
        rows = [TargetRow(row[:width], row[width] if self._by_position else None) for row in values]
        return {tuple(row.values[place] for place in target.key_places): row for row in rows}

    def merge(
        self,
        target: Target,
        rows: pa.Table | TaskRows,
        owner: TargetOwner,
        *,
        truncate: LastTruncate | None = None,
        partial: bool = True,
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Merge a batch's net changes; ``target`` has the progress after them. False, with nothing done, if a sync has merged
        since the batch's progress.

        ``rows``: few, in this process, or any number, from tasks. ``partial``: some rows lack columns. ``check`` is called
        before each attempt.
        """

        def merge() -> bool:
            # Looked at in each attempt: what came between may have changed what the target asks of its writers.
            in_driver = self._driver_targets if isinstance(rows, pa.Table) else None
            done = None if in_driver is None else in_driver.merge(target, rows, owner, truncate=truncate, partial=partial)
            return self._merge(target, rows, owner, truncate=truncate, partial=partial) if done is None else done

        # The commit that may come between is a compaction.
        lost = (*conflicts(), *(() if self._driver_targets is None else (self._driver_targets.lost,)))
        return commit_with_retry(merge, lost, self.path(target.name), check=check)

    def compact(self, name: str) -> TargetCompactionResult | None:
        """Compact a target's small files, in one commit that changes no row. None: another commit came between."""
        from delta.tables import DeltaTable

        compacted = None if self._driver_targets is None else self._driver_targets.compact(name)
        if compacted is not None:
            return compacted
        with self._sessions.borrow() as session:
            table = DeltaTable.forPath(session, self.path(name))
            (detail,) = table.detail().select("properties").collect()
            size = file_bytes(detail.properties)
        with self._sessions.borrow({_LARGEST: str(size), _SMALL: str(size // 2)}) as session:
            try:
                (done,) = DeltaTable.forPath(session, self.path(name)).optimize().executeCompaction().select("metrics").collect()
            except conflicts():
                return None
        return TargetCompactionResult(done.metrics.numFilesRemoved, done.metrics.numFilesAdded)

    def refusal(self, error: Exception) -> str | None:
        from pyspark.errors import AnalysisException, PythonException

        said = (_TASK_SAYS if isinstance(error, PythonException) else _DELTA_SAYS).search(str(error))
        if said is not None:
            return said[1][:500]
        if isinstance(error, AnalysisException):
            return one_line(error)
        return None if self._driver_targets is None else self._driver_targets.refusal(error)

    def _merge(
        self, target: Target, found: pa.Table | TaskRows, owner: TargetOwner, *, truncate: LastTruncate | None, partial: bool
    ) -> bool:
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        settings = {_APP_ID: APP_ID, _VERSION: str(target.progress.commits), _METADATA: encode_metadata(owner, target)}
        if isinstance(found, pa.Table) and found.num_rows <= _UNPLANNED_ROWS_MAX:
            settings |= self._planning(target)
        with self._sessions.borrow(settings) as session:
            if isinstance(found, pa.Table):
                rows, key_ranges = _frame(session, found), key_ranges_of(found, target.key)
            else:
                rows, key_ranges = found.frame, found.reach
            match_condition = key_condition(key_ranges if truncate is None else {}, "t")
            table = DeltaTable.forPath(session, self.path(target.name))
            if target.history:
                return merge_history(
                    table, history_source(rows, table.toDF(), target, key_ranges), target, truncate, match_condition
                )
            on = F.expr(" AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in target.key)) & match_condition
            counts = apply_condition(by_position=self._by_position)
            merge = table.alias("t").merge(rows.alias("s"), on).whenMatchedDelete(f"NOT s.{PUT} AND {counts}")
            if changed := self._changed(target, partial=partial):
                merge = merge.whenMatchedUpdate(f"s.{PUT} AND {counts}", set=dict(changed))
            values = {quoted(name): f"s.{quoted(name)}" for name, _ in self._wanted(target)}
            merge = merge.whenNotMatchedInsert(f"s.{PUT}", values=dict(values))
            if truncate is not None:
                merge = merge.whenNotMatchedBySourceDelete(truncate_condition(truncate, by_position=self._by_position))
            done = merge.execute()
            return bool(done.collect())

    def _changed(self, target: Target, *, partial: bool) -> Mapping[str, str]:
        changed = {}
        for place, column in enumerate(target.columns):
            if column.name not in target.key:
                name = quoted(column.name)
                changed[name] = f"s.{name}"
                if partial:
                    applies = f"s.{COLUMN_POSITIONS}[{place}] >= {f'coalesce(t.{POSITION}, 0)' if self._by_position else 0}"
                    changed[name] = f"CASE WHEN s.{COLUMN_POSITIONS} IS NULL OR {applies} THEN s.{name} ELSE t.{name} END"
        return changed | ({POSITION: f"s.{POSITION}"} if self._by_position else {})

    def _planning(self, target: Target) -> dict[str, str]:
        """The settings for a MERGE of few rows, planned once: planning each stage anew takes three times the jobs."""
        cores = self._session.sparkContext.defaultParallelism
        partitions = min(cores, int(self._session.conf.get(_PARTITIONS) or cores))
        planning = {_ADAPTIVE: "false", _PARTITIONS: str(partitions)}
        return planning if target.history else {**planning, _MATERIALIZE: "none"}


def _frame(session: SparkSession, rows: pa.Table) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = rows if rows.num_rows else rows.schema.empty_table()  # Spark needs a chunk of every column
    return session.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def conflicts() -> tuple[type[Exception], ...]:
    """The errors of a commit that lost against another."""
    from delta import exceptions

    return tuple(getattr(exceptions, name) for name in exceptions.__all__)


def _to_be_mapped(columns: Iterable[TargetColumn]) -> bool:
    return any(_MAPPED.search(column.name) for column in columns)


def id_of(table: DeltaTable) -> str:
    (detail,) = table.detail().select("id").collect()
    return str(detail.id)


def commits_of(history: DataFrame) -> list[TableCommit]:
    rows = history.select("version", "operation", "userMetadata").collect()
    return [TableCommit(row.version, row.operation, row.userMetadata) for row in sorted(rows, key=lambda row: -row.version)]
