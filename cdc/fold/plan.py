"""The input of a fold: targets, and the user's choices, of all tables and of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..choice.columns import ColumnRules
from ..choice.tables import Choices, Policy, Truncates
from ..events.connect import ColumnForm
from ..events.sources import TableId, is_selected, merged_declarations, of_table
from ..target import Target
from .fold_result import RefusedEvent
from .row_decoder import ValueOptions


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The choices that hold for one table."""

    source: TableId
    target: Target | None
    selected: bool
    key: Sequence[str] | None
    """The declared key."""
    rules: ColumnRules | None
    truncates: Truncates
    policy: Policy
    value_options: ValueOptions
    forms: Mapping[str, ColumnForm]
    """How events write a column when their schema leaves it open, by column."""
    by_position: bool
    blocked_from: Mapping[int, RefusedEvent]
    unwritable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """The fold's inputs."""

    targets: Mapping[TableId, Target]
    tables: frozenset[str] | None = None
    """Only these tables; None: all."""
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_position: bool = True
    blocked_from: Mapping[TableId, Mapping[int, RefusedEvent]] = field(default_factory=dict)
    """The first event that cannot be applied, by table and queue. Later events of the table in that queue are not applied either."""
    value_options: ValueOptions = field(default_factory=ValueOptions)
    truncates: Truncates = "ordered"
    one_queue: bool = False
    """Whether a truncate without a position removes what came before it, as the topic has one queue only."""
    choices: Choices = field(default_factory=Choices)
    policy: Policy = "stop"
    unwritable: Mapping[TableId, Mapping[str, str]] = field(default_factory=dict)
    """Columns that a target refuses, by table, with the reason. Events with them are rejected."""

    def table(self, source: TableId) -> TablePlan:
        """What holds for one table: to be asked once, as names and patterns are matched."""
        policy, chosen = self.policy_of(source), self.choices.of(source)
        truncates = chosen.truncates or self.truncates
        times = chosen.unfit_times or self.value_options.unfit_times
        key = of_table(self.keys, source)
        return TablePlan(
            source=source,
            target=self.targets.get(source),
            selected=is_selected(self.tables, source),
            key=key,
            rules=self.choices.rules(source, key, self.value_options.unavailable),
            truncates="queue" if truncates == "ordered" and self.one_queue else truncates,
            policy=policy,
            value_options=replace(self.value_options, unfit_times=times, unfit_nulls=policy == "null"),
            forms=merged_declarations(self.value_options.forms, source),
            by_position=self.by_position,
            blocked_from=self.blocked_from.get(source, {}),
            unwritable=self.unwritable.get(source, {}),
        )

    def policy_of(self, source: TableId) -> Policy:
        return self.choices.of(source).policy or self.policy
