"""`penstock.sync` and `penstock.retype`: change events of a topic into Delta tables, with Spark or without."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .cdc.retype.retype import RetypedTable, retype_targets
from .cdc.sync.backends.local import LocalBackend
from .cdc.sync.options import NO_STEPS, BatchReport, SyncOptions, SyncSteps
from .cdc.sync.plan import SyncPlan
from .cdc.sync.run import SyncRun
from .coordinator.lakes import LakeLike, LakePlace
from .log.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sync(
    lake: LakeLike,
    topic: str,
    options: SyncOptions,
    *,
    spark: SparkSession | None = None,
    coordination: str | None = None,
    listener: Callable[[BatchReport], None] | None = None,
    steps: SyncSteps = NO_STEPS,
) -> SyncRun:
    """Apply the change events of ``topic`` to the Delta tables ``<options.into>/<table>``, each event exactly once. Returns at once.

    Events are Debezium's envelopes as JSON. Missing tables are made, and get columns that appear on the way. Wherever a driver ends,
    another one with the same name goes on from the targets' progress.

    - ``spark``: the session; None: without Spark, in this process and by deltalake (the extra ``delta``), with the same guarantees. For small
      targets: a batch costs little, and one core does all the work. History needs Spark. Either engine goes on where the other ended.
    - ``listener``: called with every batch that was applied, in the run's own thread.

    By default an event that cannot be applied stops its table, and no other: `SyncRun.stopped` names it. Raises `SyncInUse` when another
    driver runs a sync of this name and stays alive, `TopicNotFound`, `InvalidArgument`, and the lake's errors. `SyncRun.await_termination`
    raises later errors.

    A run may lose its lease, because its machine stood still or its table did not answer. Then it commits nothing more under that lease. It
    takes the lease again and goes on from the targets' progress, with a warning in the log (`penstock.cdc`). It ends with `SyncInUse` if
    another driver has taken over and stays alive, and with `LeaseLost` after 6 losses without a batch between.
    """
    place = LakePlace.of(lake, coordination=coordination)
    if spark is None:
        plan = SyncPlan.of(place, topic, options, steps=steps)
        plan.check_without_spark()
        return SyncRun(plan, LocalBackend, listener=listener)
    from .spark.sync.backend import SparkBackend

    _check_folder_of_spark(os.fspath(options.into))
    tasks = max(1, spark.sparkContext.defaultParallelism)
    plan = SyncPlan.of(place, topic, options, tasks=tasks, steps=steps)
    return SyncRun(plan, partial(SparkBackend, spark), listener=listener)


def _check_folder_of_spark(into: str) -> None:
    if "://" in into and "?" in into:
        raise InvalidArgument(
            "Spark's session knows where its stores are, not the URL of a folder",
            operation="sync",
            object="into",
            expected=into.partition("?")[0],
            observed=into,
            hint="session(s3=S3(endpoint=…, region=…)); `penstock sync` does that by itself",
        )


def retype(
    lake: LakeLike,
    topic: str,
    options: SyncOptions,
    *,
    dry_run: bool = False,
    coordination: str | None = None,
    steps: SyncSteps = NO_STEPS,
) -> tuple[RetypedTable, ...]:
    """Give the targets of a sync, made by any engine, the types that their columns have at the source. The sync goes on with them.

    A column gets the type that ``options.columns`` names, else that of the catalogue of a captured PostgreSQL as the table's newest event
    tells it. One that holds all values of the source's column keeps its type, unless it is text. Every value is converted exactly. Each target
    is replaced by one commit of deltalake's (the extra ``delta``), which carries the sync's progress, or is left as it is where a value does
    not fit: `RetypedTable.refused` names it. The rows go through a file of this machine (``TMPDIR``), so a target may be larger than memory.

    - ``options``: those of the `sync`; only what says which targets there are, and their types, has a meaning. A masked column keeps its type,
      unless another one is named.
    - ``dry_run``: only say what would be done; all values are converted all the same. It may run beside the sync.

    Raises `SyncInUse` while a sync of this name runs, `TopicNotFound` where there was none, `InvalidArgument`, and the errors of the lake and of
    the targets' store. Whenever it ends, each target has its old form or the new one; run again, it does the rest.
    """
    place = LakePlace.of(lake, coordination=coordination)
    return retype_targets(SyncPlan.of(place, topic, options, steps=steps), dry_run=dry_run)
