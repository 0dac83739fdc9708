"""The options of a sync, the steps of its batches as tests see them, and its report of each batch."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from ...log.errors import InvalidArgument, PenstockError
from ...log.limits import MIB, WAIT_MAX, Duration, DurationField, field_default, set_durations
from ..choice.option_types import ByName, Flag, OneOf, Period, TablesOrAll, Text, Texts, Whole, check_options, option
from ..choice.tables import Policy, TableOptions, Truncates, UnfitTimes

if TYPE_CHECKING:
    from ..fold.fold_result import RefusedEvent

Guard: TypeAlias = Literal["position", "offset"]
"""What tells older events from newer ones: the source's positions, or the topic's order."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_REJECTED_NAME = re.compile(r"_[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_KEEP_CUTS_MAX = timedelta(days=3650)
REJECTED = "_rejected"
"""The name of the table of rejected events unless another one is chosen."""
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


def check_sync_name(name: str) -> str:
    """The name. Raises `InvalidArgument` when no sync can have it."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            "bad name of a sync",
            operation="sync",
            object=name,
            expected="letters, digits, '_', '-' and '.', at most 100",
        )
    return name


@dataclass(frozen=True, kw_only=True)
class SyncOptions:
    """The options of a sync. `penstock sync` and its file take the same, by the same names.

    Patterns may stand wherever a table is named: ``*`` stands for any characters, dots too, and ``?`` for one. A table's own name goes before
    them. Raises `InvalidArgument` for a value that its option does not take.
    """

    into: str | os.PathLike[str] = field(
        metadata=option(Text(path=True), "The folder of the target tables: a path, or s3://bucket/prefix.", metavar="URL")
    )
    name: str | None = field(default=None, metadata=option(Text(), "The sync's name; by default the topic's.", metavar="NAME"))
    """Wherever a driver ends, another one of this name goes on from the targets' progress."""
    tables: Collection[str] | None = field(
        default=None,
        metadata=option(
            Texts("a list of names or patterns"),
            "Only this table, as table or schema.table, or all that a pattern means, such as 'sales.*'; with ! before it, not these; may be "
            "repeated.",
            metavar="TABLE",
        ),
    )
    rename: Mapping[str, str] = field(
        default_factory=dict,
        metadata=option(
            ByName("names of targets by table", Text()),
            "What a table's target is called, such as 'sales.*={schema}_{table}'; may be repeated.",
            metavar="TABLE=NAME",
        ),
    )
    columns: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict,
        metadata=option(
            ByName("types by table and column", ByName("types by column", Text())),
            "A column's type, such as orders.amount=decimal(12,2) or orders.tags=array<string>. How events write it may follow: "
            "'decimal(12,2) from base64'.",
            metavar="TABLE.COLUMN=TYPE",
        ),
    )
    """Types as Spark SQL names them; others come from the target, the events' own schema, or JSON. How events without a schema write them may
    follow: ``timestamp from milliseconds`` (or seconds, microseconds, nanoseconds), ``decimal(12,2) from base64`` (or text), ``binary from hex``
    (or base64, base64-url-safe).
    """
    keys: Mapping[str, Sequence[str]] = field(
        default_factory=dict,
        metadata=option(
            ByName("columns by table", Texts(ordered=True, least=1)),
            "Key columns of a table, in place of its events' key.",
            metavar="TABLE=COLUMN,…",
        ),
    )
    table_options: Mapping[str, TableOptions] = field(default_factory=dict)
    """More options by table: columns to take or to leave out, masks, and others of a table's own."""
    history: bool | Collection[str] = field(
        default=False,
        metadata=option(TablesOrAll(), "Keep every version of this table's rows; 'all' means every table.", metavar="TABLE"),
    )
    """SCD type 2, in all tables or in these. It needs Spark."""
    guard: Guard = field(default="position", metadata=option(OneOf(Guard), "How older events are told from newer ones."))
    """``position`` passes over events older than the row they meet, by the source's position, which targets keep in ``__position``; ``offset``
    trusts the topic's order.
    """
    truncates: Truncates = field(
        default="ordered",
        metadata=option(
            OneOf(Truncates),
            "Which truncates count: those with a position; also others, where all events of a table come by one queue; or none.",
        ),
    )
    """``ordered`` applies those that have a position, and all where the topic has one queue. Another one stops its table, as nothing says which
    rows of other queues it removes.
    """
    unfit_times: UnfitTimes = field(
        default="stop",
        metadata=option(
            OneOf(UnfitTimes),
            "What infinite times, years before 1 and after 9999, and nanoseconds do, in columns of times: go by --policy, or become NULL "
            "unnoted.",
        ),
    )
    """A column that is declared as string holds them as text."""
    policy: Policy = field(
        default="stop",
        metadata=option(
            OneOf(Policy),
            "What an event does that cannot be applied: stop its table; leave NULL in place of values that do not fit; or be passed over. The "
            "last two are written to a table beside the targets.",
        ),
    )
    """``null`` lets other events than those with unfit values stop their tables. ``reject`` also passes over events that name no table."""
    rejected: str = field(
        default=REJECTED,
        metadata=option(Text(), "The name of that table; it begins with _, as no target does.", metavar="NAME"),
    )
    """The table of rejected events: what was passed over or became NULL, with the reasons."""
    unavailable_values: Collection[str] = field(
        default=(),
        metadata=option(
            Texts(),
            "The connector's unavailable.value.placeholder, where it is not Debezium's own; may be repeated.",
            metavar="TEXT",
        ),
    )
    adopt: bool = field(default=False, metadata=option(Flag(), "Write to targets that something else has written.", in_file=False))
    widen: bool = field(
        default=False,
        metadata=option(
            Flag(), "Let columns become wider with their source, by Delta's type widening: for targets that only Spark reads."
        ),
    )
    """A column whose source has become wider (int to bigint, more digits of a decimal) gets the wider type when a value calls for it, with Spark
    only. Only readers that know type widening can read such a target: not deltalake.
    """
    trigger: Literal["available_now"] | Duration = "available_now"
    """``"available_now"`` ends with what is stored now. A duration (a `timedelta` or a number of seconds) goes on, with at least that time from
    batch to batch.
    """
    max_events: int = field(default=100_000, metadata=option(Whole(1), "The most events of one batch."))
    """A batch that ran out of memory, or whose driver died, is taken again smaller, and batches grow again from there."""
    max_bytes: int = field(
        default=256 * MIB,
        metadata=option(
            Whole(1, size=True), "The most bytes of one batch, by the bodies of its events; one event is always taken."
        ),
    )
    events_in_driver: int = field(
        default=100_000,
        metadata=option(
            Whole(0), "Fold batches of at most so many events in Spark's driver, quicker than by tasks; 0: all by tasks."
        ),
    )
    target_bytes_in_driver: int = field(
        default=256 * MIB,
        metadata=option(
            Whole(0, size=True),
            "Merge into a target from Spark's driver where that reads at most so many of its bytes; 0: all by Spark.",
        ),
    )
    """What was folded in the driver is merged there by deltalake, in tens of milliseconds instead of Spark's seconds. Spark merges too if deltalake
    is not installed, and into targets in a store or with history. So it does where a target asks more of its writers than files of rows:
    deletion vectors, column mapping, clustering, partitions, constraints, generated columns, a change feed, columns that may not be NULL.
    """
    merges_at_once: int | None = field(
        default=None,
        metadata=option(
            Whole(1),
            "How many targets are merged into side by side; by default 2 to 4, by the machine's cores.",
            metavar="NUMBER",
        ),
    )
    compact_every: int = field(
        default=100,
        metadata=option(
            Whole(0),
            "Put a target's small files together after so many commits to it, beside the sync; 0: never.",
            metavar="COMMITS",
        ),
    )
    """No row changes by that. Files that only older versions have stay until somebody removes them (VACUUM)."""
    cuts: bool = field(
        default=False,
        metadata=option(
            Flag(),
            "Record cuts: the versions of all targets that together equal the source between two of its transactions. See penstock cuts.",
        ),
    )
    """`at_cut` reads them. Batches then stop at such places. The topic's events have to come from a capture of Penstock's, and ``policy`` must be
    ``stop``. A table that stands still is not in a cut, which names it.
    """
    keep_cuts: DurationField = field(
        default=field_default(timedelta(days=7)), metadata=option(Period(), "How long cuts are kept at least.")
    )

    def __post_init__(self) -> None:
        check_options(self)
        set_durations(self, "keep_cuts", most=_KEEP_CUTS_MAX, operation="sync")
        if self.name is not None:
            check_sync_name(self.name)
        if not _REJECTED_NAME.fullmatch(self.rejected) or self.rejected == "_delta_log":
            raise InvalidArgument(
                "bad name of the table of rejected events",
                operation="sync",
                object="rejected",
                expected="_ and then letters, digits, '_', '-' and '.', as no target begins with _",
                observed=repr(self.rejected),
            )
        if self.trigger != "available_now":
            if isinstance(self.trigger, str):
                expected = "'available_now', a timedelta or a number of seconds"
                raise InvalidArgument("bad trigger", operation="sync", expected=expected, observed=repr(self.trigger))
            set_durations(self, "trigger", most=WAIT_MAX, operation="sync")

    @property
    def interval(self) -> timedelta | None:
        """The least time from batch to batch. None: the sync ends with what is stored now."""
        return self.trigger if isinstance(self.trigger, timedelta) else None


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
