"""`penstock.spark.sync`: change events of a topic into Delta tables, exactly once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ...cdc.choice.tables import Policy, TableOptions, Truncates, UnfitTimes, choices_of
from ...cdc.events.placeholders import UnavailablePlaceholder
from ...cdc.fold.row_reader import ValueOptions
from ...cdc.sync.local import LocalBackend
from ...cdc.sync.options import ASIDE, CUTS_KEPT, NO_STEPS, BatchReport, SyncOptions, SyncSteps
from ...cdc.sync.rejected_table import check_aside_name
from ...cdc.sync.run import SyncRun
from ...cdc.targets import TableDeclarations, check_into
from ...coordinator.lakes import LakeLike, LakePlace
from ...log.errors import InvalidArgument, NotSupported
from ...log.limits import MIB, WAIT_MAX, Duration, checked_duration
from .backend import SparkBackend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def sync(
    spark: SparkSession | None,
    lake: LakeLike,
    topic: str,
    *,
    into: str | os.PathLike[str],
    name: str | None = None,
    tables: Collection[str] | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    history: bool | Collection[str] = False,
    rename: Mapping[str, str] | None = None,
    table_options: Mapping[str, TableOptions] | None = None,
    trigger: Literal["available_now"] | Duration = "available_now",
    max_events_per_batch: int = 100_000,
    max_bytes_per_batch: int = 256 * MIB,
    events_in_driver: int = 100_000,
    target_bytes_in_driver: int = 256 * MIB,
    merges_at_once: int | None = None,
    compact_every: int = 100,
    guard: Literal["position", "offset"] = "position",
    truncates: Truncates = "ordered",
    unfit_times: UnfitTimes = "stop",
    policy: Policy = "stop",
    rejected: str = ASIDE,
    unavailable_value: str | Collection[str] = (),
    adopt: bool = False,
    widen: bool = False,
    coordination: str | None = None,
    cuts: bool = False,
    keep_cuts: Duration = CUTS_KEPT,
    listener: Callable[[BatchReport], None] | None = None,
    steps: SyncSteps = NO_STEPS,
) -> SyncRun:
    """Apply the change events of ``topic`` to the Delta tables ``<into>/<table>``, each event exactly once. Returns at once.

    Events are Debezium's envelopes as JSON. Missing tables are made, and get columns that appear on the way. Wherever a driver ends,
    another one with the same ``name`` (default: the topic's) goes on from the targets' progress.

    - ``spark``: the session; None: without Spark, in this process and by deltalake (the extra ``delta``), with the same guarantees. For small
      targets: a batch costs little, and one core does all the work. History needs Spark. Either engine goes on where the other ended.
    - ``tables``: only these, as ``table`` or ``schema.table``, also by patterns: ``*`` stands for any characters, dots too, and ``?`` for one.
      Those behind ``!`` are left out. Patterns may stand wherever a table is named. A table's own name goes before them.
    - ``columns``: types of columns by table, as Spark SQL names them; else they come from the target, the events' own schema, or JSON. How events
      without a schema write them may follow: ``timestamp from milliseconds`` (or seconds, microseconds, nanoseconds), ``decimal(12,2) from base64``
      (or text), ``binary from hex`` (or base64, base64-url-safe).
    - ``keys``: key columns by table, in place of the events' key.
    - ``history``: keep every version of a row (SCD type 2), in all tables or in these.
    - ``rename``: names of targets by table, such as ``{"public.customers": "crm_customers", "sales.*": "{schema}_{table}"}``.
    - ``table_options``: more options by table (`TableOptions`): columns to take or to leave out, masks, and others of a table's own.
    - ``trigger``: ``"available_now"`` ends with what is stored now; a duration (a `timedelta` or a number of seconds) goes on, with at
      least that time from batch to batch.
    - ``max_events_per_batch``, ``max_bytes_per_batch`` (of the events' bodies): the most that a batch has; one event is always taken. A batch
      that ran out of memory, or whose driver died, is taken again smaller, and batches grow again from there.
    - ``events_in_driver``: batches of at most this many events are folded in this process, which is quicker than starting tasks; 0: all by tasks.
    - ``target_bytes_in_driver``: what was folded in this process is merged by deltalake, in tens of milliseconds instead of Spark's seconds, into a
      target of which it has to read at most this many bytes; 0: all by Spark. Spark merges too if deltalake is not installed, into targets
      in a store or with history, and into those that ask more of their writers than files of rows: deletion vectors, column mapping,
      clustering, partitions, constraints, generated columns, a change feed, columns that may not be NULL.
    - ``merges_at_once``: how many targets are merged into side by side. By default 2 to 4, by the cores of the driver's machine.
    - ``compact_every``: after so many commits to a target its small files are put together, beside the sync and without a change of any row;
      0: never. Files that only older versions have stay until somebody removes them (VACUUM).
    - ``guard``: ``"position"`` passes over events older than the row they meet, by the source's position, which targets keep in
      ``__position``; ``"offset"`` trusts the topic's order.
    - ``truncates``: ``"ordered"`` applies those that have a position, and all where the topic has one queue. Another one stops its table, as
      nothing says which rows of other queues it removes. ``"queue"`` applies them too, for tables whose events all come by one queue;
      ``"ignore"`` applies none.
    - ``unfit_times``: infinite times, those before the year 1 or after 9999, and nanoseconds fit no column of a time: ``"stop"`` their table, or
      ``"null"``. A column that is declared as string holds them as text.
    - ``policy``: what an event does that cannot be applied. ``"stop"``: its table stands still there. ``"null"``: NULL takes the place of values
      that do not fit their columns; other events stop their tables. ``"reject"``: it is passed over, as are events that name no table.
    - ``rejected``: the name of the Delta table beside the targets that has what was passed over or became NULL, with the reasons; it begins with
      ``_``, as no target does.
    - ``unavailable_value``: the connector's ``unavailable.value.placeholder`` where it is not Debezium's own; several if it was changed.
    - ``adopt``: write to targets that something else has written.
    - ``widen``: a column whose source has become wider (int to bigint, more digits of a decimal) gets the wider type when a value calls for it, by
      Delta's type widening, with Spark only. Only readers that know it can read such a target: not deltalake.
    - ``cuts``: record cuts, which are the versions of all targets that together equal the source at one place of its log, between two of its
      transactions; `at_cut` reads them. Batches then stop at such places. The topic's events have to come from a capture of Penstock's, and
      ``policy`` must be ``"stop"``. A table that stands still is not in a cut, which names it.
    - ``keep_cuts``: how long cuts are kept at least.
    - ``listener``: called with every batch that was applied, in the run's own thread.

    By default an event that cannot be applied stops its table, and no other: `SyncRun.stopped` names it. Raises `SyncInUse` when another
    driver runs a sync of this name and stays alive, `TopicNotFound`, `InvalidArgument`, and the lake's errors. `SyncRun.await_termination`
    raises later errors.

    A run may lose its lease, because its machine stood still or its table did not answer. Then it commits nothing more under that lease. It
    takes the lease again and goes on from the targets' progress, with a warning in the log (`penstock.spark`). It ends with `SyncInUse` if
    another driver has taken over and stays alive, and with `LeaseLost` after 6 losses without a batch between.
    """
    place = LakePlace.of(lake, coordination=coordination)
    name = sync_name(name, topic)
    if trigger == "available_now":
        pause = None
    elif isinstance(trigger, str):
        expected = "'available_now', a timedelta or a number of seconds"
        raise InvalidArgument("bad trigger", operation="sync", expected=expected, observed=repr(trigger))
    else:
        pause = checked_duration("trigger", trigger, most=WAIT_MAX, operation="sync")
    if guard not in ("position", "offset"):
        raise InvalidArgument("bad guard", operation="sync", expected="'position' or 'offset'", observed=repr(guard))
    if truncates not in get_args(Truncates):
        raise InvalidArgument(
            "bad truncates", operation="sync", expected="'ordered', 'queue' or 'ignore'", observed=repr(truncates)
        )
    limits = {
        "max_events_per_batch": (max_events_per_batch, 1),
        "max_bytes_per_batch": (max_bytes_per_batch, 1),
        "merges_at_once": (1 if merges_at_once is None else merges_at_once, 1),
        "compact_every": (compact_every, 0),
        "events_in_driver": (events_in_driver, 0),
        "target_bytes_in_driver": (target_bytes_in_driver, 0),
    }
    for limit, (value, least) in limits.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidArgument(
                f"bad {limit}", operation="sync", expected=f"a whole number of {least} or more", observed=repr(value)
            )
    if unfit_times not in get_args(UnfitTimes):
        raise InvalidArgument("bad unfit_times", operation="sync", expected="'stop' or 'null'", observed=repr(unfit_times))
    if policy not in get_args(Policy):
        raise InvalidArgument("bad policy", operation="sync", expected="'stop', 'null' or 'reject'", observed=repr(policy))
    if spark is not None and "://" in os.fspath(into) and "?" in os.fspath(into):
        raise InvalidArgument(
            "Spark's session knows where its stores are, not the URL of a folder",
            operation="sync",
            object="into",
            expected=os.fspath(into).partition("?")[0],
            observed=os.fspath(into),
            hint="session(s3=S3(endpoint=…, region=…)); `penstock sync` does that by itself",
        )
    if isinstance(tables, str):
        raise InvalidArgument("bad tables", operation="sync", expected="a list of names or patterns", observed=repr(tables))
    kept = checked_duration("keep_cuts", keep_cuts, most=timedelta(days=3650), operation="sync")
    chosen = choices_of(table_options, rename)
    declared = TableDeclarations.of(*chosen.declared(columns, keys))
    options = SyncOptions(
        place=place,
        topic=topic,
        into=target_folder(into),
        name=name,
        tables=None if tables is None else frozenset(tables),
        history=history if isinstance(history, bool) else frozenset(history),
        declared=declared,
        reading=ValueOptions(
            UnavailablePlaceholder.of([unavailable_value] if isinstance(unavailable_value, str) else unavailable_value),
            unfit_times,
            declared.forms,
        ),
        max_events_per_batch=max_events_per_batch,
        max_bytes_per_batch=max_bytes_per_batch,
        guard=guard == "position",
        truncates=truncates,
        choices=chosen,
        policy=policy,
        rejected=check_aside_name(rejected),
        adopt=adopt,
        widen=widen,
        events_in_driver=events_in_driver,
        target_bytes_in_driver=target_bytes_in_driver,
        merges_at_once=merges_at_once,
        compact_every=compact_every,
        tasks=1 if spark is None else max(1, spark.sparkContext.defaultParallelism),
        steps=steps,
        cuts=cuts,
        keep_cuts=kept,
    )
    if spark is None:
        check_without_spark(options)
    backend_of = LocalBackend if spark is None else partial(SparkBackend, spark)
    return SyncRun(options, backend_of, trigger=pause, listener=listener)


def check_without_spark(options: SyncOptions) -> None:
    """Raise `NotSupported` for what only Spark does."""
    if options.history or any(one.history for one in options.choices.by_name.values()):
        raise NotSupported(
            "the sync without Spark keeps no history", operation="sync", object=options.name, hint="give it a Spark session"
        )
    if options.widen:
        raise NotSupported(
            "the sync without Spark cannot widen types",
            operation="sync",
            object=options.name,
            hint="give it a Spark session, or retype",
        )


def sync_name(name: str | None, topic: str) -> str:
    """The name of a sync, by default its topic's. Raises `InvalidArgument`."""
    name = topic.replace("%", "") if name is None else name
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            "bad name of a sync", operation="sync", object=name, expected="letters, digits, '_', '-' and '.', at most 100"
        )
    return name


def target_folder(into: str | os.PathLike[str]) -> str:
    """The folder of targets, absolute. Raises `InvalidArgument`."""
    folder = os.fspath(into)
    check_into(folder.partition("?")[0] if "://" in folder else folder)
    return folder if "://" in folder else str(Path(folder).expanduser().absolute())
