"""The backend without Spark: folds in this process, and targets by deltalake."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa

from ...changes import Key, NetChange, TargetRow, finished, merged
from ...delta.deltalake_targets import DeltalakeTargets
from ...fold.fold import TargetResolver
from ...fold.fold_result import LastTruncate
from ...target import Target
from ..plan import SyncPlan
from .fold_tasks import FoldInput, FoldOutput, fold_task, no_collector
from .merge_rows import batch_of, history_table, rows_schema

_AT_ONCE = 4
"""The default limit of merges at once: each may hold rewritten files in memory."""


class LocalBackend:
    """This process and deltalake, for targets that are small enough: no JVM, one core."""

    keeps_history = False

    def __init__(self, plan: SyncPlan) -> None:
        self.tables = DeltalakeTargets(plan.into, by_position=plan.by_position)
        self.merges_at_once = plan.options.merges_at_once or at_once()

    def rows_of(self, rows: pa.Table) -> pa.Table:
        return rows

    def fold(self, fold_input: FoldInput, resolve_target: TargetResolver) -> LocalFoldedBatch:
        return LocalFoldedBatch(fold_input, resolve_target)


class LocalFoldedBatch:
    """The folds of one batch."""

    def __init__(self, fold_input: FoldInput, resolve_target: TargetResolver) -> None:
        self._input = fold_input
        self._outputs: list[FoldOutput] = []
        size = 0
        for number, task in enumerate(fold_input.tasks):
            fold_input.steps.reached("fold", "in", str(number))
            with no_collector():
                self._outputs.append(fold_task(fold_input, task, fold_input.bytes_max, before=size, resolve_target=resolve_target))
            size += self._outputs[-1].size
        self._parts = [output.folded for output in self._outputs]

    def summary(self) -> FoldOutput:
        return FoldOutput.of(self._outputs)

    def rows(self, target: Target, truncate: LastTruncate | None, old: Mapping[Key, TargetRow] | None) -> pa.Table:
        self._input.steps.reached("merge", "in", target.name)
        if target.history:
            return history_table(target, [one for part in self._parts for one in part.versions.get(target.source, ())])
        return self._nets(target, None if truncate is None else truncate.position, old)

    def _nets(self, target: Target, truncate: int | None, old: Mapping[Key, TargetRow] | None) -> pa.Table:
        nets: dict[Key, NetChange] = {}
        for part in self._parts:
            for key, net in part.nets.get(target.source, ()):
                nets[key] = merged(nets[key], net) if key in nets else net
        finished(nets, truncate, old)
        schema = rows_schema(target, by_position=self._input.plan.by_position)
        return pa.Table.from_batches([batch_of(target, schema, list(nets.items()))] if nets else [], schema)

    def drop(self) -> None:
        pass


def at_once() -> int:
    return max(2, min(_AT_ONCE, os.cpu_count() or 1))
