"""Targets with history: the rows of a batch's versions, and the one MERGE that closes current versions and adds new ones."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from ...cdc.changes import ALWAYS, NEVER
from ...cdc.delta.key_ranges import KeyRanges
from ...cdc.delta.merge_sql import APPLIES_UP_TO, COLUMN_POSITIONS
from ...cdc.fold.fold_result import LastTruncate
from ...cdc.sync.backends.merge_rows import LAST, NUMBER, history_batches, history_schema
from ...cdc.sync.options import SyncSteps
from ...cdc.target import CURRENT, OP, POSITION, VALID_FROM, VALID_TO, Target
from .key_ranges import key_condition, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KIND, _TOLD, _AGAIN, _END = "__kind", "__told", "__again", "__end"
_CLOSE, _ADD = "close", "add"


def history_rows(versions: DataFrame, target: Target, steps: SyncSteps) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = history_schema(target)
    return versions.mapInArrow(partial(_typed, target, schema, steps), from_arrow_schema(schema, prefer_timestamp_ntz=True))


def history_source(rows: DataFrame, target_rows: DataFrame, target: Target, key_ranges: KeyRanges) -> DataFrame:
    """The rows to merge: one that closes each replaced current version, and the new versions.

    ``target_rows``: the target's rows, of which those within ``key_ranges`` may have a key of ``rows``.

    A removed row's last version is its progress: repeated changes from before its delete are skipped too. A change at the
    current version's position is a repetition if it ends with the same values. Otherwise it continues a transaction of one
    position.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = [quoted(key) for key in target.key]

    def same(one: str, other: str) -> Column:
        return F.expr(" AND ".join(f"{one}.{key} <=> {other}.{key}" for key in keys))

    candidates = target_rows.where(key_condition(key_ranges))
    s, c = rows.alias("s"), candidates.where(CURRENT).alias("c")
    versions = candidates.alias("a").join(s, same("a", "s"), "left_semi")
    others = [column.name for column in target.columns if column.name not in target.key]
    end = f"max_by(struct({', '.join([f'1 AS {_TOLD}', *map(quoted, others)])}), struct({POSITION}, {CURRENT}, {VALID_FROM}))"
    e = versions.groupBy(*keys).agg(F.expr(f"max({POSITION})").alias(_TOLD), F.expr(end).alias(_END)).alias("e")
    reached = f"CASE WHEN c.{CURRENT} THEN c.{POSITION} ELSE e.{_TOLD} END"

    places = {column.name: place for place, column in enumerate(target.columns)}

    def value(name: str, otherwise: str, reached: str) -> str:
        return f"CASE WHEN s.{COLUMN_POSITIONS}[{places[name]}] < coalesce({reached}, {NEVER + 1}) THEN {otherwise} ELSE s.{quoted(name)} END"

    values = {name: f"s.{quoted(name)}" for name in places} | {
        name: value(name, f"c.{quoted(name)}", f"c.{POSITION}") for name in others
    }
    alike = [f"({value(name, f'e.{_END}.{quoted(name)}', reached)}) <=> e.{_END}.{quoted(name)}" for name in others]
    equal = " AND ".join(["true", *alike])
    ended = f"s.{APPLIES_UP_TO} = {reached} AND s.{LAST} AND CASE WHEN s.{OP} = 'd' THEN c.{CURRENT} IS NULL ELSE {equal} END"
    of_row = Window.partitionBy(*(F.col(f"s.{key}") for key in keys))
    newer = f"{reached} IS NULL OR s.{APPLIES_UP_TO} > {reached} OR (s.{APPLIES_UP_TO} = {reached} AND NOT {_AGAIN})"
    joined = s.join(c, same("s", "c"), "left").join(e, same("s", "e"), "left")
    new_versions = joined.withColumn(_AGAIN, F.coalesce(F.max(F.expr(ended)).over(of_row), F.lit(False))).where(newer)
    values_of_columns = [F.expr(one).alias(name) for name, one in values.items()]
    marks = [F.expr(f"s.{name}").alias(name) for name in (OP, VALID_FROM, VALID_TO, CURRENT, POSITION, NUMBER)]
    new_versions = new_versions.select(*values_of_columns, *marks)
    names = new_versions.columns
    first = new_versions.groupBy(*keys).agg(
        *(F.expr(f"min_by({quoted(name)}, {NUMBER})").alias(name) for name in names if name not in target.key)
    )
    closing_rows = first.select(*map(quoted, names)).withColumn(_KIND, F.lit(_CLOSE))
    return closing_rows.unionByName(new_versions.where(f"{OP} <> 'd'").withColumn(_KIND, F.lit(_ADD)))


def merge_history(table: object, source: DataFrame, target: Target, truncate: LastTruncate | None, match_condition: Column) -> bool:
    """Close and add versions, in one commit. ``truncate``: position and time of the last truncate, which closes every row below
    it. ``match_condition``: the condition for rows that may have a key of ``source``.
    """
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    assert isinstance(table, DeltaTable)
    on = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in target.key)
    on = f"{on} AND t.{CURRENT} AND s.{_KIND} = '{_CLOSE}'"
    names = [*(column.name for column in target.columns), OP, VALID_FROM, VALID_TO, CURRENT, POSITION]
    merge = (
        table.alias("t")
        .merge(source.alias("s"), F.expr(on) & match_condition)
        .whenMatchedUpdate(set={CURRENT: F.lit(False), VALID_TO: F.expr(f"s.{VALID_FROM}")})
        .whenNotMatchedInsert(f"s.{_KIND} = '{_ADD}'", values={quoted(name): f"s.{quoted(name)}" for name in names})
    )
    if truncate is not None:
        position, time_us = truncate
        below = "true" if position == ALWAYS else f"(t.{POSITION} IS NULL OR t.{POSITION} < {position})"
        merge = merge.whenNotMatchedBySourceUpdate(
            f"t.{CURRENT} AND {below}", set={CURRENT: F.lit(False), VALID_TO: F.expr(f"timestamp_micros({time_us})")}
        )
    return bool(merge.execute().collect())


def _typed(target: Target, schema: pa.Schema, steps: SyncSteps, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    steps.reached("merge", "in", target.name)
    versions = [
        version
        for batch in batches
        for piece in batch.column("piece").to_pylist()
        for version in pickle.loads(piece)  # noqa: S301 - our own tasks wrote it
    ]
    yield from history_batches(target, schema, versions)
