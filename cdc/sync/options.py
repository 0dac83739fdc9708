"""The options of a sync, the steps of its batches as tests see them, and its report of each batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol, Self

from ...coordinator.lakes import LakePlace
from ...log.errors import PenstockError
from ...log.limits import MIB
from ..choice.columns import names_column
from ..choice.tables import Choices, Policy, Truncates
from ..events.sources import TableId, is_selected, matches_table, of_table, split_selection
from ..fold.fold import FoldPlan
from ..fold.fold_result import RefusedEvent
from ..fold.row_reader import ValueOptions
from ..targets import TableDeclarations

CUTS_KEPT = timedelta(days=7)
ASIDE = "_rejected"
"""The name of the side table unless told otherwise."""
Moment = Literal["before", "in", "after"]
STEPS = ("read", "fold", "create", "add columns", "set aside", "merge", "progress")
"""The steps in order: choose the events, fold them, make a target, give it columns, keep unfit events aside, merge into each target, keep the
sync's progress.
"""


class SyncSteps(Protocol):
    """Is told of every step, and may end the process there. It travels to tasks, which report that they are in one."""

    def reached(self, step: str, moment: Moment, what: str = "") -> None: ...


class _NoSteps:
    """Does nothing."""

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        pass


NO_STEPS: SyncSteps = _NoSteps()


class PoisonEvent(PenstockError):
    """An event whose table cannot be told."""

    kind = "poison_event"

    @classmethod
    def at(cls, refused: RefusedEvent, topic: str) -> Self:
        """The error for a refused event."""
        queue, offset = refused.place
        return cls(
            refused.reason,
            operation="sync",
            object=f"{topic}, queue {queue}, offset {offset}",
            hint="nothing behind it in its queue is applied; see it with `penstock read`",
        )


@dataclass(frozen=True, kw_only=True)
class SyncOptions:
    """The options of a sync."""

    place: LakePlace
    topic: str
    into: str
    name: str
    tables: frozenset[str] | None = None
    history: frozenset[str] | bool = False
    declared: TableDeclarations = field(default_factory=TableDeclarations)
    reading: ValueOptions = field(default_factory=ValueOptions)
    max_events_per_batch: int = 100_000
    max_bytes_per_batch: int = 256 * MIB
    guard: bool = True
    truncates: Truncates = "ordered"
    choices: Choices = field(default_factory=Choices)
    """The options of tables of their own."""
    policy: Policy = "stop"
    rejected: str = ASIDE
    """The folder of the side table of unfit events."""
    adopt: bool = False
    widen: bool = False
    """Whether columns become wider with their source, by Delta's type widening."""
    tasks: int = 1
    events_in_driver: int = 100_000
    """The most events of a batch that is folded in the driver, also with Spark."""
    target_bytes_in_driver: int = 256 * MIB
    """The most bytes of a target's files that a driver by Spark may read for a merge of its own."""
    merges_at_once: int | None = None
    """The most targets that are merged into side by side; None: as the backend thinks best."""
    compact_every: int = 100
    """The number of commits to a target after which its small files are put together; 0: never."""
    steps: SyncSteps = NO_STEPS
    cuts: bool = False
    """Whether cuts are recorded."""
    keep_cuts: timedelta = CUTS_KEPT
    """How long cuts are kept at least."""

    @property
    def keeps_rejected(self) -> bool:
        """Whether unfit events of any table are kept aside."""
        return any(policy not in (None, "stop") for policy in (self.policy, *(one.policy for one in self.choices.by_name.values())))

    def plan(self, *, one_queue: bool = False) -> FoldPlan:
        """The inputs of folds that are no target's."""
        return FoldPlan(
            {},
            self.tables,
            self.declared.keys,
            self.guard,
            reading=self.reading,
            truncates=self.truncates,
            one_queue=one_queue,
            choices=self.choices,
            policy=self.policy,
        )

    def types_of(self, source: TableId, told: Mapping[str, str]) -> Mapping[str, str]:
        """The types of a table's columns, by what the source's catalogue has told of them. Masked columns are no longer of these types."""
        rules = self.choices.rules(source, of_table(self.declared.keys, source), self.reading.unavailable)
        return told if rules is None else rules.types(told)

    def historic(self, source: TableId) -> bool:
        """Whether a table's target is to keep history."""
        history = self.history
        if (chosen := self.choices.of(source).history) is not None:
            return chosen
        return history if isinstance(history, bool) else bool(of_table(dict.fromkeys(history, True), source))


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The report of one batch."""

    number: int
    events: int
    seconds: float
    merged: Mapping[str, int] = field(default_factory=dict)
    """The number of events by target that was written."""
    lag: int = 0
    """The number of events of the topic that are still to come, as far as it was known at the batch's beginning."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """The number of a target's last events that lie behind what their queues told before, by the source's positions. Those whose rows are
    there change nothing. Such events come after a connector's restart; if they do not end, the source has moved to another server.
    """
    rejected: Mapping[str, int] = field(default_factory=dict)
    """The number of events by table that were not applied, and stand in the side table. Events without a table count under ``?``."""
    nulled: Mapping[str, int] = field(default_factory=dict)
    """The number of values by table in whose place is NULL, which stand there too."""
    cut: int | None = None
    """The number of the cut that was recorded behind it."""
    epoch: int = 0
    """The epoch of the lease under which it was applied. If it is higher than that of the batch before, the run had lost its lease and took
    it again.
    """


def unmatched(
    options: SyncOptions, known: Mapping[TableId, Collection[str]], columns: Mapping[TableId, frozenset[str]]
) -> tuple[str, ...]:
    """The named tables and columns (``table.column``) that no event has had yet, sorted: they may still come, or be misspelt.

    ``known``: the columns of their targets, by table; none where there is no target. ``columns``: those that events of this run had, of tables
    whose options name columns to take, to leave out or to mask.
    """
    return tuple(sorted({*_tables(options, known), *_columns(options, known), *_chosen_columns(options, columns)}))


def _tables(options: SyncOptions, known: Collection[TableId]) -> Iterator[str]:
    history = () if isinstance(options.history, bool) else options.history
    named = {*options.declared.columns, *options.declared.keys, *options.choices.by_name}
    for table in {*split_selection(options.tables or ())[0], *history, *named}:
        if not any(is_selected((table,), source) for source in known):
            yield table


def _columns(options: SyncOptions, known: Mapping[TableId, Collection[str]]) -> Iterator[str]:
    for table, types in options.declared.columns.items():
        there = {name for source, names in known.items() if is_selected((table,), source) for name in names}
        if there:
            yield from (f"{table}.{name}" for name in types if name not in there)


def _chosen_columns(options: SyncOptions, columns: Mapping[TableId, frozenset[str]]) -> Iterator[str]:
    for table, one in options.choices.by_name.items():
        had = [column for source, names in columns.items() if matches_table(table, source) for column in names]
        for name in {*one.masks, *one.without_columns, *(one.only_columns or ())} if had else ():
            if not any(names_column(name, column) for column in had):
                yield f"{table}.{name}"
