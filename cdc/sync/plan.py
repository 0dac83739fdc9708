"""The plan of a sync: its options for one topic of one lake."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...coordinator.lakes import LakePlace
from ...log.errors import NotSupported
from ...log.schema.fields import FieldType
from ..choice.columns import names_column
from ..choice.tables import Choices, choices_of
from ..events.placeholders import UnavailablePlaceholder
from ..events.sources import TableId, is_selected, matches_table, of_table, split_selection
from ..fold.plan import FoldPlan
from ..fold.row_decoder import ValueOptions
from ..target import TableDeclarations, check_into
from .options import NO_STEPS, SyncOptions, SyncSteps, check_sync_name


@dataclass(frozen=True, kw_only=True)
class SyncPlan:
    """The input of a driver."""

    place: LakePlace
    topic: str
    options: SyncOptions
    name: str
    into: str
    tables: frozenset[str] | None
    choices: Choices
    declared: TableDeclarations
    value_options: ValueOptions
    tasks: int = 1
    steps: SyncSteps = NO_STEPS

    @classmethod
    def of(cls, place: LakePlace, topic: str, options: SyncOptions, *, tasks: int = 1, steps: SyncSteps = NO_STEPS) -> Self:
        """The plan for a topic. Raises `InvalidArgument`."""
        choices = choices_of(options.table_options, options.rename)
        declared = TableDeclarations.of(*choices.declared(options.columns, options.keys))
        return cls(
            place=place,
            topic=topic,
            options=options,
            name=check_sync_name(topic.replace("%", "")) if options.name is None else options.name,
            into=_folder(options.into),
            tables=None if options.tables is None else frozenset(options.tables),
            choices=choices,
            declared=declared,
            value_options=ValueOptions(UnavailablePlaceholder.of(options.unavailable_values), options.unfit_times, declared.forms),
            tasks=tasks,
            steps=steps,
        )

    @property
    def by_position(self) -> bool:
        """Whether the source's positions order events."""
        return self.options.guard == "position"

    @property
    def keeps_rejected(self) -> bool:
        """Whether any table's policy writes to the table of rejected events."""
        policies = (self.options.policy, *(one.policy for one in self.choices.by_name.values()))
        return any(policy not in (None, "stop") for policy in policies)

    def fold_plan(self, *, one_queue: bool = False) -> FoldPlan:
        return FoldPlan(
            {},
            self.tables,
            self.declared.keys,
            self.by_position,
            value_options=self.value_options,
            truncates=self.options.truncates,
            one_queue=one_queue,
            choices=self.choices,
            policy=self.options.policy,
        )

    def types_of(self, source: TableId, catalog_types: Mapping[str, FieldType]) -> Mapping[str, FieldType]:
        """A table's column types, from those of the source's catalogue; masked columns lose theirs."""
        rules = self.choices.rules(source, of_table(self.declared.keys, source), self.value_options.unavailable)
        return catalog_types if rules is None else rules.types(catalog_types)

    def historic(self, source: TableId) -> bool:
        history = self.options.history
        if (chosen := self.choices.of(source).history) is not None:
            return chosen
        return history if isinstance(history, bool) else bool(of_table(dict.fromkeys(history, True), source))

    def check_without_spark(self) -> None:
        """Raise `NotSupported` for options that need Spark."""
        if self.options.history or any(one.history for one in self.choices.by_name.values()):
            raise NotSupported(
                "the sync without Spark keeps no history", operation="sync", object=self.name, hint="give it a Spark session"
            )
        if self.options.widen:
            raise NotSupported(
                "the sync without Spark cannot widen types",
                operation="sync",
                object=self.name,
                hint="give it a Spark session, or retype",
            )


def _folder(into: str | os.PathLike[str]) -> str:
    folder = os.fspath(into)
    check_into(folder.partition("?")[0] if "://" in folder else folder)
    return folder if "://" in folder else str(Path(folder).expanduser().absolute())


def unmatched(
    plan: SyncPlan, known: Mapping[TableId, Collection[str]], columns: Mapping[TableId, frozenset[str]]
) -> tuple[str, ...]:
    """The named tables and columns (``table.column``) without an event, sorted: to come, or misspelt.

    ``known``: the columns of targets, by table. ``columns``: those that events of this run had, for tables whose options name
    columns.
    """
    return tuple(sorted({*_tables(plan, known), *_columns(plan, known), *_chosen_columns(plan, columns)}))


def _tables(plan: SyncPlan, known: Collection[TableId]) -> Iterator[str]:
    history = () if isinstance(plan.options.history, bool) else plan.options.history
    named = {*plan.declared.columns, *plan.declared.keys, *plan.choices.by_name}
    for table in {*split_selection(plan.tables or ())[0], *history, *named}:
        if not any(is_selected((table,), source) for source in known):
            yield table


def _columns(plan: SyncPlan, known: Mapping[TableId, Collection[str]]) -> Iterator[str]:
    for table, types in plan.declared.columns.items():
        there = {name for source, names in known.items() if is_selected((table,), source) for name in names}
        if there:
            yield from (f"{table}.{name}" for name in types if name not in there)


def _chosen_columns(plan: SyncPlan, columns: Mapping[TableId, frozenset[str]]) -> Iterator[str]:
    for table, one in plan.choices.by_name.items():
        seen = [column for source, names in columns.items() if matches_table(table, source) for column in names]
        for name in {*one.masks, *one.without_columns, *(one.only_columns or ())} if seen else ():
            if not any(names_column(name, column) for column in seen):
                yield f"{table}.{name}"
