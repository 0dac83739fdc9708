"""A sync in memory: what an engine does with the folds of its tasks, and what its MERGE does to each row, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.cdc.changes import ALWAYS, Key, NetChange, TargetRow, finished, merged
from penstock.cdc.choice.tables import Truncates
from penstock.cdc.events.conversion import KEEP
from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold import Fold
from penstock.cdc.fold.fold_result import FoldResult, combined
from penstock.cdc.fold.plan import FoldPlan
from penstock.cdc.fold.row_decoder import ValueOptions
from penstock.cdc.fold.shape import TableShape, key_of, new_columns
from penstock.cdc.target import TableDeclarations, Target, TargetProgress
from tests.cdc.reference import Message


@dataclass
class Row:
    values: dict[str, Any]
    position: int | None


@dataclass
class Memory:
    """Targets in memory. ``tasks``: the fold of each batch is shared by so many, queue by queue."""

    declared: TableDeclarations = field(default_factory=TableDeclarations)
    by_position: bool = True
    tasks: int = 1
    truncates: Truncates = "queue"
    targets: dict[TableId, Target] = field(default_factory=dict)
    tables: dict[TableId, dict[Key, Row]] = field(default_factory=dict)
    stopped: dict[TableId, dict[int, tuple[int, str]]] = field(default_factory=dict)
    truncated: dict[TableId, int] = field(default_factory=dict)
    """Of tables that have no target yet."""

    def apply(self, batch: Iterable[Message]) -> None:
        messages = sorted(batch, key=lambda message: (message.queue, message.offset))
        while True:
            parts = [self._fold([m for m in messages if m.queue % self.tasks == task]) for task in range(self.tasks)]
            folded = combined(parts)
            assert not folded.broken, folded.broken
            if not self._took_in(folded):
                break
        ends = {message.queue: message.offset + 1 for message in messages}
        for source in folded.counts:
            self._merge(source, parts, folded, ends)
        for source, refused in folded.refused.items():
            self.stopped.setdefault(source, {}).update({queue: (one.place[1], one.reason) for queue, one in refused.items()})

    def rows(self) -> dict[str, dict[Key, dict[str, Any]]]:
        return {source.table: {key: row.values for key, row in rows.items()} for source, rows in self.tables.items()}

    def _fold(self, messages: Sequence[Message]) -> FoldResult:
        targets = {source: replace(target, stopped=source in self.stopped) for source, target in self.targets.items()}
        fold = Fold(
            FoldPlan(
                targets,
                None,
                self.declared.keys,
                self.by_position,
                value_options=ValueOptions(forms=self.declared.forms),
                truncates=self.truncates,
            )
        )
        for message in messages:
            fold.add(message.queue, message.offset, message.body)
        return fold.result()

    def _took_in(self, folded: FoldResult) -> bool:
        changed = False
        for source, seen in folded.seen.items():
            shape = TableShape.of(source, seen, self.declared)
            if source in self.targets:
                columns = new_columns(self.targets[source], shape)
                self.targets[source] = replace(self.targets[source], columns=(*self.targets[source].columns, *columns))
                changed |= bool(columns)
            elif shape.key:
                before = [at for at in (self.truncated.pop(source, None), seen.truncated) if at is not None]
                progress = TargetProgress({}, max(before, default=None))
                self.targets[source] = Target(source, source.table, key_of(shape), shape.key, progress)
                self.tables[source] = {}
                changed = True
            elif seen.truncated is not None:
                self.truncated[source] = max(seen.truncated, self.truncated.get(source, 0))
        return changed

    def _merge(self, source: TableId, parts: Sequence[FoldResult], folded: FoldResult, ends: Mapping[int, int]) -> None:
        target, table = self.targets[source], self.tables[source]
        nets: dict[Key, NetChange] = {}
        for part in parts:
            for key, net in part.nets.get(source, ()):
                nets[key] = merged(nets[key], net) if key in nets else net
        last = folded.truncates.get(source)
        truncate = None if last is None else last.position
        names = [column.name for column in target.columns]
        moved = folded.moved.get(source)
        old = None
        if moved:
            old = {key: TargetRow(tuple(map(table[key].values.get, names)), table[key].position) for key in moved if key in table}
        finished(nets, truncate, old)
        refused = folded.refused.get(source, {})
        until = {queue: refused[queue].place[1] if queue in refused else end for queue, end in ends.items()}
        self.targets[source] = target.reached(until, truncate)
        if truncate is not None:
            for key in [key for key in table if key not in nets]:
                position = table[key].position
                if position is None or truncate == ALWAYS or position < truncate:
                    del table[key]
        for key, net in nets.items():
            self._meet(table, names, key, net)
        for key, row in table.items():
            row.values.update(zip(target.key, key, strict=True))

    @staticmethod
    def _meet(table: dict[Key, Row], names: Sequence[str], key: Key, net: NetChange) -> None:
        there = table.get(key)
        if there is None:
            if net.put:
                values = [None if value is KEEP else value for value in net.values]
                table[key] = Row(dict(zip(names, values, strict=True)), net.position)
        elif there.position is None or net.applies_up_to >= there.position:
            if not net.put:
                del table[key]
                return
            for place, (name, value) in enumerate(zip(names, net.values, strict=True)):
                if net.column_positions is None or net.column_positions[place] >= (there.position or 0):
                    there.values[name] = None if value is KEEP else value
            there.position = net.position
