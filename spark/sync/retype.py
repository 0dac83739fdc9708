"""`penstock.spark.retype`: targets of a sync get the types of their source's columns. It needs no Spark."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import get_args

from ...cdc.choice.tables import TableOptions, UnfitTimes, choices_of
from ...cdc.events.placeholders import UnavailablePlaceholder
from ...cdc.fold.row_reader import ValueOptions
from ...cdc.retype.retype import RetypedTable, retype_targets
from ...cdc.sync.options import NO_STEPS, SyncOptions, SyncSteps
from ...cdc.targets import TableDeclarations
from ...coordinator.lakes import LakeLike, LakePlace
from ...log.errors import InvalidArgument
from .start import sync_name, target_folder


def retype(
    lake: LakeLike,
    topic: str,
    *,
    into: str | os.PathLike[str],
    name: str | None = None,
    tables: Collection[str] | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    table_options: Mapping[str, TableOptions] | None = None,
    unfit_times: UnfitTimes = "stop",
    unavailable_value: str | Collection[str] = (),
    dry_run: bool = False,
    coordination: str | None = None,
    steps: SyncSteps = NO_STEPS,
) -> tuple[RetypedTable, ...]:
    """Give the targets of a sync, made by any engine, the types that their columns have at the source. The sync goes on with them.

    A column gets the type that ``columns`` names, else that of the catalogue of a captured PostgreSQL as the table's newest event tells it.
    One that holds all values of the source's column keeps its type, unless it is text. Every value is converted exactly. Each target is
    replaced by one commit of deltalake's (the extra ``delta``), which carries the sync's progress, or is left as it is where a value does not
    fit: `RetypedTable.refused` names it. The rows go through a file of this machine (``TMPDIR``), so a target may be larger than memory.

    - ``into``, ``name``, ``tables``, ``columns``, ``table_options``, ``unfit_times``, ``unavailable_value`` and ``coordination`` are those of the
      `sync`. A masked column keeps its type, unless another one is named.
    - ``dry_run``: only say what would be done; all values are converted all the same. It may run beside the sync.

    Raises `SyncInUse` while a sync of this name runs, `TopicNotFound` where there was none, `InvalidArgument`, and the errors of the lake and of
    the targets' store. Whenever it ends, each target has its old form or the new one; run again, it does the rest.
    """
    if unfit_times not in get_args(UnfitTimes):
        raise InvalidArgument("bad unfit_times", operation="retype", expected="'stop' or 'null'", observed=repr(unfit_times))
    chosen = choices_of(table_options, None)
    declared = TableDeclarations.of(*chosen.declared(columns, None))
    unavailable = UnavailablePlaceholder.of([unavailable_value] if isinstance(unavailable_value, str) else unavailable_value)
    options = SyncOptions(
        place=LakePlace.of(lake, coordination=coordination),
        topic=topic,
        into=target_folder(into),
        name=sync_name(name, topic),
        tables=None if tables is None else frozenset(tables),
        declared=declared,
        reading=ValueOptions(unavailable, unfit_times, declared.forms),
        choices=chosen,
        steps=steps,
    )
    return retype_targets(options, dry_run=dry_run)
