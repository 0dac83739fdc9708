"""The options of a sync, its steps as tests see them, and its report of each batch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from ...log.errors import InvalidArgument, PenstockError
from ...log.limits import MIB, WAIT_MAX, Duration, DurationField, StringList, Strings, field_default, set_durations
from ..choice.option_types import ByName, Flag, OneOf, Period, TablesOrAll, Text, Texts, Whole, check_options, option
from ..choice.tables import Policy, TableOptions, Truncates, UnfitTimes

if TYPE_CHECKING:
    from ..fold.fold_result import RefusedEvent

Guard: TypeAlias = Literal["position", "offset"]
"""The order of events: the source's positions, or the topic's offsets."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_REJECTED_NAME = re.compile(r"_[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_KEEP_CUTS_MAX = timedelta(days=3650)
REJECTED = "_rejected"
"""The default name of the table of rejected events."""
Moment = Literal["before", "in", "after"]
STEPS = ("read", "fold", "create", "add columns", "set aside", "merge", "progress")
"""The steps in order: choose events, fold them, make a target, add columns, keep rejected events, merge into each target, keep
the progress.
"""


class SyncSteps(Protocol):
    """Called at every step, and may end the process there. Tasks get it too."""

    def reached(self, step: str, moment: Moment, what: str = "") -> None: ...


class _NoSteps:
    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        pass


NO_STEPS: SyncSteps = _NoSteps()


class PoisonEvent(PenstockError):
    """An event whose table is unknown."""

    kind = "poison_event"

    @classmethod
    def at(cls, refused: RefusedEvent, topic: str) -> Self:
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
    """The options of a sync, named as in `penstock sync` and its file.

    A table may be a pattern: ``*`` is any characters, dots too, and ``?`` is one. A table's own name goes before patterns.
    Raises `InvalidArgument`.
    """

    into: str | os.PathLike[str] = field(
        metadata=option(Text(path=True), "The folder of the target tables: a path, or s3://bucket/prefix.", metavar="URL")
    )
    name: str | None = field(default=None, metadata=option(Text(), "The sync's name; by default the topic's.", metavar="NAME"))
    """The next driver of this name goes on from the targets' progress."""
    tables: Strings | None = field(
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
    """Spark SQL's types; other columns have the target's, the events' schema's, or JSON's. The encoding in events without a
    schema may follow: ``timestamp from milliseconds`` (or seconds, microseconds, nanoseconds), ``decimal(12,2) from base64``
    (or text), ``binary from hex`` (or base64, base64-url-safe).
    """
    keys: Mapping[str, StringList] = field(
        default_factory=dict,
        metadata=option(
            ByName("columns by table", Texts(ordered=True, least=1)),
            "Key columns of a table, in place of its events' key.",
            metavar="TABLE=COLUMN,…",
        ),
    )
    table_options: Mapping[str, TableOptions] = field(default_factory=dict)
    """More options by table, such as columns to take or leave out, and masks."""
    history: bool | Strings = field(
        default=False,
        metadata=option(TablesOrAll(), "Keep every version of this table's rows; 'all' means every table.", metavar="TABLE"),
    )
    """SCD type 2, in all tables or these. Needs Spark."""
    guard: Guard = field(default="position", metadata=option(OneOf(Guard), "How older events are told from newer ones."))
    """``position`` skips events older than their row, by the source's position, which targets keep in ``__position``.
    ``offset`` trusts the topic's order.
    """
    truncates: Truncates = field(
        default="ordered",
        metadata=option(
            OneOf(Truncates),
            "Which truncates count: those with a position; also others, where all events of a table come by one queue; or none.",
        ),
    )
    """``ordered`` applies truncates with a position, and all in a topic of one queue. Any other stops its table: it may concern
    rows of other queues.
    """
    unfit_times: UnfitTimes = field(
        default="stop",
        metadata=option(
            OneOf(UnfitTimes),
            "What infinite times, years before 1 and after 9999, and nanoseconds do, in columns of times: go by --policy, or become NULL "
            "unnoted.",
        ),
    )
    """A column declared as string holds them as text."""
    policy: Policy = field(
        default="stop",
        metadata=option(
            OneOf(Policy),
            "What an event does that cannot be applied: stop its table; leave NULL in place of values that do not fit; or be passed over. The "
            "last two are written to a table beside the targets.",
        ),
    )
    """``null``: an event that fails otherwise than by unfit values stops its table. ``reject`` also skips events without a
    table.
    """
    rejected: str = field(
        default=REJECTED,
        metadata=option(Text(), "The name of that table; it begins with _, as no target does.", metavar="NAME"),
    )
    """The table of rejected events and values, with the reasons."""
    unavailable_values: Strings = field(
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
    """A column whose source became wider (int to bigint, more digits of a decimal) gets the wider type when a value needs it,
    with Spark only. Readers have to know type widening: deltalake does not.
    """
    trigger: Literal["available_now"] | Duration = "available_now"
    """``"available_now"`` ends with the events stored now. A duration (a `timedelta` or a number of seconds) goes on, with at
    least that time from batch to batch.
    """
    max_events: int = field(default=100_000, metadata=option(Whole(1), "The most events of one batch."))
    """A batch that failed for memory, or whose driver died, is repeated smaller; later ones grow again."""
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
    """Batches folded in the driver are merged there by deltalake, in tens of milliseconds instead of Spark's seconds.

    Spark merges where deltalake is not installed, and into targets in a store, or with history. So it does for targets with
    deletion vectors, column mapping, clustering, partitions, constraints, generated columns, a change feed, or columns that may
    not be NULL.
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
    """Rows stay as they are. Files of older versions stay until a VACUUM."""
    cuts: bool = field(
        default=False,
        metadata=option(
            Flag(),
            "Record cuts: the versions of all targets that together equal the source between two of its transactions. See penstock cuts.",
        ),
    )
    """Batches stop at cuts, and `at_cut` reads them. The topic's events have to come from a capture of Penstock's, and
    ``policy`` has to be ``stop``. A cut names tables that stand still, and lacks them.
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
        """The least time from batch to batch; None with ``available_now``."""
        return self.trigger if isinstance(self.trigger, timedelta) else None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The report of one batch."""

    number: int
    events: int
    seconds: float
    merged: Mapping[str, int] = field(default_factory=dict)
    """Events written, by target."""
    lag: int = 0
    """Events still to come, as of the batch's beginning."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """A target's last events that lie behind earlier ones of their queues, by the source's positions.

    They change no row that is there. A connector's restart causes some; if they do not end, the source has moved to another
    server.
    """
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Events not applied, by table; ``?`` without one. The side table has them."""
    nulled: Mapping[str, int] = field(default_factory=dict)
    """Values replaced by NULL, by table. The side table has them."""
    cut: int | None = None
    """The number of the cut recorded after the batch."""
    epoch: int = 0
    """The epoch of the lease. A rise means that the run lost its lease and took it again."""
