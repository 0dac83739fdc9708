"""What carries a batch out: Spark's tasks and Delta's JARs, or this process and deltalake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ...cdc.changes import Key, Net, finished, merged
from ...cdc.combine import combined
from ...cdc.delta_tables import DeltaTables
from ...cdc.fold import Folded, Truncate
from ...cdc.targets import Column, Found, Owner, Target, Written
from ...log.errors import ReopenError
from .scan import Scan, batch_of, folded_of, pieces, rows_of, rows_schema, summary
from .tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TargetTables(Protocol):
    """The targets in one folder."""

    def path(self, name: str) -> str: ...
    def exists(self, name: str) -> bool: ...
    def find(self, name: str) -> Found | None: ...
    def written(self, name: str) -> Written | None: ...
    def create(self, target: Target, owner: Owner) -> None: ...
    def add_columns(self, target: Target, columns: Sequence[Column], owner: Owner) -> None: ...
    def rows(self, target: Target, keys: Sequence[Key]) -> dict[Key, tuple[Any, ...]]: ...
    def merge(
        self,
        target: Target,
        rows: Any,  # noqa: ANN401 - what the backend's `rows` gave
        owner: Owner,
        *,
        truncate: Truncate | None = None,
        partial: bool = True,
    ) -> bool: ...


def check_done(tables: TargetTables, target: Target, owner: Owner) -> None:
    """Delta says that the target is as far as that already: by a commit of ours whose answer was lost, or by another driver's.

    Raises `ReopenError`.
    """
    written = tables.written(target.name)
    done = written.progress.offsets if written is not None and written.owner == owner else {}
    if any(done.get(queue, 0) < offset for queue, offset in target.progress.offsets.items()):
        raise ReopenError(
            "the target is further than this driver knows",
            operation="sync",
            object=tables.path(target.name),
            expected=dict(target.progress.offsets),
            observed=dict(done),
            hint="did two drivers run? Start the sync again: it goes on from what the target has",
        )


class Backend(Protocol):
    """Folds events and writes targets. What `fold` gives is the backend's own, until it is dropped."""

    @property
    def tables(self) -> TargetTables: ...
    @property
    def keeps_history(self) -> bool: ...
    def fold(self, scan: Scan) -> Any: ...  # noqa: ANN401 - the backend's own
    def summary(self, found: Any) -> Folded: ...  # noqa: ANN401
    def rows(
        self,
        found: Any,  # noqa: ANN401
        scan: Scan,
        target: Target,
        truncate: Truncate | None,
        old: Mapping[Key, tuple[Any, ...]] | None,
    ) -> Any: ...  # noqa: ANN401
    def drop(self, found: Any) -> None: ...  # noqa: ANN401


class SparkBackend:
    """By Spark's tasks."""

    keeps_history = True

    def __init__(self, spark: SparkSession, into: str, *, guard: bool) -> None:
        self._session = spark.newSession()
        self.tables = Tables(self._session, into, guard=guard)

    def fold(self, scan: Scan) -> Any:  # noqa: ANN401 - a DataFrame
        return pieces(self._session, scan).persist()

    def summary(self, found: Any) -> Folded:  # noqa: ANN401
        return summary(found)

    def rows(
        self,
        found: Any,  # noqa: ANN401
        scan: Scan,
        target: Target,
        truncate: Truncate | None,
        old: Mapping[Key, tuple[Any, ...]] | None,
    ) -> Any:  # noqa: ANN401 - a DataFrame
        return rows_of(found, scan, target, truncate, old)

    def drop(self, found: Any) -> None:  # noqa: ANN401
        found.unpersist()


class LocalBackend:
    """In this process, for targets that are small enough: no JVM, no task, one core."""

    keeps_history = False

    def __init__(self, into: str, *, guard: bool) -> None:
        self.tables = DeltaTables(into, guard=guard)

    def fold(self, scan: Scan) -> list[Folded]:
        parts = []
        for number, task in enumerate(scan.tasks):
            scan.steps.reached("fold", "in", str(number))
            parts.append(folded_of(scan, task))
        return parts

    def summary(self, found: list[Folded]) -> Folded:
        return combined(found)

    def rows(
        self,
        found: list[Folded],
        scan: Scan,
        target: Target,
        truncate: Truncate | None,
        old: Mapping[Key, tuple[Any, ...]] | None,
    ) -> pa.Table:
        scan.steps.reached("merge", "in", target.name)
        nets: dict[Key, Net] = {}
        for part in found:
            for key, net in part.nets.get(target.source, ()):
                nets[key] = merged(nets[key], net) if key in nets else net
        finished(nets, None if truncate is None else truncate.position, old)
        schema = rows_schema(target, guard=scan.plan.guard)
        return pa.Table.from_batches([batch_of(target, schema, list(nets.items()))] if nets else [], schema)

    def drop(self, found: list[Folded]) -> None:
        pass


def backend_of(spark: SparkSession | None, into: str, *, guard: bool) -> Backend:
    """This Spark's; this process's without one."""
    return LocalBackend(into, guard=guard) if spark is None else SparkBackend(spark, into, guard=guard)
