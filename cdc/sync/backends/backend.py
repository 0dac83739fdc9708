"""The engine that carries out a sync's batches: this process and deltalake, or Spark's tasks and Delta's JARs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from ....log.errors import PenstockError, ReopenError
from ...changes import Key, TargetRow
from ...delta.commit_retry import one_line
from ...delta.compaction import TargetCompactionResult
from ...fold.fold import TargetResolver
from ...fold.fold_result import LastTruncate
from ...target import (
    CommitMetadata,
    ExistingTarget,
    Target,
    TargetColumn,
    TargetOwner,
    TargetProgress,
    TargetRefused,
    progress_unknown,
)
from ..plan import SyncPlan
from .fold_tasks import FoldInput, FoldOutput


class TargetTables(Protocol):
    """The targets in one folder."""

    def path(self, name: str) -> str: ...
    def exists(self, name: str) -> bool: ...
    def find(self, name: str) -> ExistingTarget | None: ...
    def written(self, name: str) -> CommitMetadata | None: ...
    def newest_of(self, name: str, owner: TargetOwner, *, anew: bool = False) -> tuple[int, TargetProgress] | None: ...
    def id_of(self, name: str) -> str | None: ...
    def create(self, target: Target, owner: TargetOwner) -> None: ...
    def add_columns(self, target: Target, columns: Sequence[TargetColumn]) -> None: ...
    def widen(self, target: Target, columns: Sequence[TargetColumn]) -> None: ...
    def rows(self, target: Target, keys: Sequence[Key]) -> dict[Key, TargetRow]: ...
    def merge(
        self,
        target: Target,
        rows: Any,  # noqa: ANN401 - what the backend's `rows` gave
        owner: TargetOwner,
        *,
        truncate: LastTruncate | None = None,
        partial: bool = True,
        check: Callable[[], None],
    ) -> bool: ...
    def compact(self, name: str) -> TargetCompactionResult | None: ...
    def refusal(self, error: Exception) -> str | None: ...


class FoldedBatch(Protocol):
    """The folds of one batch, until they are dropped."""

    def summary(self) -> FoldOutput: ...
    def rows(self, target: Target, truncate: LastTruncate | None, old: Mapping[Key, TargetRow] | None) -> Any: ...  # noqa: ANN401
    def drop(self) -> None: ...


class Backend(Protocol):
    """Folds events and writes targets."""

    @property
    def tables(self) -> TargetTables: ...
    @property
    def keeps_history(self) -> bool: ...
    @property
    def merges_at_once(self) -> int:
        """The most threads that make rows, and merge, at once, each for a table of its own."""
        ...

    def rows_of(self, rows: pa.Table) -> Any:  # noqa: ANN401 - as its targets' `merge` takes them
        ...

    def fold(self, fold_input: FoldInput, resolve_target: TargetResolver) -> FoldedBatch:
        """Fold a batch. ``resolve_target`` is called for tables without a target, if the fold runs in this process."""
        ...


BackendOf: TypeAlias = Callable[[SyncPlan], Backend]
"""Makes the backend of one driver."""


def check_done(tables: TargetTables, target: Target, owner: TargetOwner, *, check: Callable[[], None]) -> None:
    """Raise `ReopenError` if another driver has merged into the target since the batch's progress, or `TargetRefused` if that
    is unknown.

    ``check`` raises without the lease, which a driver may lose between its last look and its commit.
    """
    written = tables.written(target.name)
    if written is not None and written.owner == owner and written.forgotten:
        raise progress_unknown(tables.path(target.name))
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
    """The refusal of a table for an error of its target. None: the store, the session, the lease or the machine failed."""
    if isinstance(error, TargetRefused):
        return error
    if isinstance(error, PenstockError | MemoryError):
        return None
    ours = isinstance(error, ValueError | TypeError | OverflowError | pa.ArrowException)
    reason = one_line(error) if ours else tables.refusal(error)
    return None if reason is None else TargetRefused(reason, operation="sync", object=tables.path(name))
