"""The backends that carry a batch out: Spark's tasks and Delta's JARs, or this process and deltalake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ...cdc.changes import Key, Net, Old, finished, merged
from ...cdc.delta_tables import DeltaTables
from ...cdc.fold import Truncate
from ...cdc.merging import one_line
from ...cdc.targets import Column, Found, Owner, Target, TargetRefused, Written
from ...log.errors import PenstockError, ReopenError
from .existing import untold
from .history import history_table
from .options import Options
from .scan import Scan, Taken, batch_of, folded_of, pieces, rows_of, rows_schema, summary
from .tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TargetTables(Protocol):
    """The targets in one folder."""

    def path(self, name: str) -> str: ...
    def exists(self, name: str) -> bool: ...
    def find(self, name: str) -> Found | None: ...
    def written(self, name: str) -> Written | None: ...
    def create(self, target: Target, owner: Owner) -> None: ...
    def add_columns(self, target: Target, columns: Sequence[Column]) -> None: ...
    def rows(self, target: Target, keys: Sequence[Key]) -> dict[Key, Old]: ...
    def merge(
        self,
        target: Target,
        rows: Any,  # noqa: ANN401 - what the backend's `rows` gave
        owner: Owner,
        *,
        truncate: Truncate | None = None,
        partial: bool = True,
        check: Callable[[], None],
    ) -> bool: ...
    def refusal(self, error: Exception) -> str | None: ...


def check_done(tables: TargetTables, target: Target, owner: Owner, *, check: Callable[[], None]) -> None:
    """Check who has merged into the target since the progress that the batch was built on. It was a commit of this driver whose answer was
    lost, or another driver's, which raises `ReopenError`. Raises `TargetRefused` when nothing tells any more which it was.

    ``check`` tells whether the lease holds. A driver that stood still between its last look at the lease and its commit has lost that too.
    """
    written = tables.written(target.name)
    if written is not None and written.owner == owner and written.forgotten:
        raise untold(tables.path(target.name))
    if written is None or written.owner != owner or written.progress != target.progress:
        check()
        raise ReopenError(
            "the target is further than this driver knows",
            operation="sync",
            object=tables.path(target.name),
            expected=dict(target.progress.offsets),
            observed=None if written is None else f"{dict(written.progress.offsets)} by sync {written.owner.name}",
            hint="did two drivers run? Start the sync again: it goes on from what the target has",
        )


def refusal_of(tables: TargetTables, name: str, error: Exception) -> TargetRefused | None:
    """The refusal that a target's error means for its table, which is to stand still. None: it is an error of the store, the session, the
    lease or the machine.
    """
    if isinstance(error, TargetRefused):
        return error
    if isinstance(error, PenstockError | MemoryError):
        return None
    ours = isinstance(error, ValueError | TypeError | OverflowError | pa.ArrowException)
    reason = one_line(error) if ours else tables.refusal(error)
    return None if reason is None else TargetRefused(reason, operation="sync", object=tables.path(name))


class FoundChanges(Protocol):
    """The folds of one batch, until they are dropped."""

    def summary(self) -> Taken: ...
    def rows(self, target: Target, truncate: Truncate | None, old: Mapping[Key, Old] | None) -> Any: ...  # noqa: ANN401
    def drop(self) -> None: ...


class Backend(Protocol):
    """Folds events and writes targets."""

    @property
    def tables(self) -> TargetTables: ...
    @property
    def keeps_history(self) -> bool: ...
    def fold(self, scan: Scan) -> FoundChanges: ...


class SparkBackend:
    """Works by Spark. Small batches are folded in this process: starting tasks for them, and shuffling their results, costs more than the
    fold.
    """

    keeps_history = True

    def __init__(self, spark: SparkSession, into: str, *, guard: bool, events_in_driver: int) -> None:
        self._session = spark.newSession()
        self._events_in_driver = events_in_driver
        self.tables = Tables(self._session, into, guard=guard)

    def fold(self, scan: Scan) -> FoundChanges:
        few = scan.events <= self._events_in_driver
        self.tables.expect(few_rows=few)
        return FoundHere(scan, self._session) if few else FoundByTasks(scan, self._session)


class LocalBackend:
    """Works in this process and by deltalake, for targets that are small enough: no JVM, no task, one core."""

    keeps_history = False

    def __init__(self, into: str, *, guard: bool) -> None:
        self.tables = DeltaTables(into, guard=guard)

    def fold(self, scan: Scan) -> FoundChanges:
        return FoundHere(scan)


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


class FoundHere:
    """The folds of one batch, in this process. Rows are a table, or with a session a DataFrame that needs no tasks."""

    def __init__(self, scan: Scan, session: SparkSession | None = None) -> None:
        self._scan = scan
        self._session = session
        self._taken: list[Taken] = []
        size = 0
        for number, task in enumerate(scan.tasks):
            scan.steps.reached("fold", "in", str(number))
            self._taken.append(folded_of(scan, task, scan.bytes_max, before=size))
            size += self._taken[-1].size
        self._parts = [taken.folded for taken in self._taken]

    def summary(self) -> Taken:
        return Taken.of(self._taken)

    def rows(self, target: Target, truncate: Truncate | None, old: Mapping[Key, Old] | None) -> pa.Table | DataFrame:
        scan = self._scan
        scan.steps.reached("merge", "in", target.name)
        if target.history:
            found = history_table(target, [one for part in self._parts for one in part.versions.get(target.source, ())])
        else:
            found = self._nets(target, None if truncate is None else truncate.position, old)
        if self._session is None:
            return found
        from pyspark.sql.pandas.types import from_arrow_schema

        found = found if found.num_rows else found.schema.empty_table()  # Spark needs a chunk of every column
        return self._session.createDataFrame(found, from_arrow_schema(found.schema))

    def _nets(self, target: Target, truncate: int | None, old: Mapping[Key, Old] | None) -> pa.Table:
        nets: dict[Key, Net] = {}
        for part in self._parts:
            for key, net in part.nets.get(target.source, ()):
                nets[key] = merged(nets[key], net) if key in nets else net
        finished(nets, truncate, old)
        schema = rows_schema(target, guard=self._scan.plan.guard)
        return pa.Table.from_batches([batch_of(target, schema, list(nets.items()))] if nets else [], schema)

    def drop(self) -> None:
        pass


def backend_of(spark: SparkSession | None, options: Options) -> Backend:
    """The backend of this Spark, or of this process without one."""
    if spark is None:
        return LocalBackend(options.into, guard=options.guard)
    return SparkBackend(spark, options.into, guard=options.guard, events_in_driver=options.events_in_driver)
