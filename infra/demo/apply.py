"""The demo's Spark job: change events from a topic's Delta table into target tables.

A batch over the whole topic, run again as often as one likes: only the last event of a row counts, and it is merged. What it shows
is that the topic's table is all that Spark needs; the streaming, exactly-once sync is another matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from .tables import Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EVENT = "key map<string,string>, value struct<op: string, source: struct<table: string>, after: map<string,string>>"


def apply_events(spark: SparkSession, *, topic_table: str, target_folder: str, targets: Sequence[Target]) -> None:
    """Merge the events of a topic into ``<target_folder>/<table>``; tables that do not exist are made. Both are paths or URLs.

    ``topic_table`` holds Debezium envelopes as JSON in ``body``; all events of a row must lie in one queue.
    """
    events = _parsed(spark.read.format("delta").load(topic_table)).persist()
    try:
        for target in targets:
            _merge(spark, _last_events(events, target), f"{target_folder.rstrip('/')}/{target.table}", target)
    finally:
        events.unpersist()


def _parsed(topic: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    event = F.from_json(F.col("body").cast("string"), _EVENT, {"mode": "FAILFAST"})
    return topic.select("queue", "offset", event.alias("event")).select(
        F.struct("queue", "offset").alias("place"),
        F.col("event.value.source.table").alias("table"),
        F.col("event.value.op").alias("op"),
        F.col("event.key").alias("key"),
        F.col("event.value.after").alias("row"),
    )


def _last_events(events: DataFrame, target: Target) -> DataFrame:
    """One line a row: what its last event was (``_op``), and its columns after that; of a deleted row only the key."""
    from pyspark.sql import functions as F

    # Keys come from the event's key: a deleted row has no columns after, and before them only what the source was told to log.
    keys = [F.col("key").getItem(name).alias(name) for name in target.key]
    last = (
        events.where(F.col("table") == target.table)
        .groupBy(*keys)
        .agg(F.max_by("op", "place").alias("_op"), F.max_by("row", "place").alias("_row"))
    )
    texts = {name: F.col(f"`{name}`" if name in target.key else f"_row.`{name}`") for name in target.columns}
    return last.select("_op", *(text.cast(target.columns[name]).alias(name) for name, text in texts.items()))


def _merge(spark: SparkSession, last: DataFrame, path: str, target: Target) -> None:
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    table = DeltaTable.createIfNotExists(spark).location(path).addColumns(last.drop("_op").schema).execute()
    same_row = reduce(and_, [F.col(f"t.`{name}`") == F.col(f"s.`{name}`") for name in target.key])
    values: dict[str, str | Column] = {f"`{name}`": F.col(f"s.`{name}`") for name in target.columns}
    (
        table.alias("t")
        .merge(last.alias("s"), same_row)
        .whenMatchedDelete("s._op = 'd'")
        .whenMatchedUpdate(set=values)
        .whenNotMatchedInsert("s._op <> 'd'", values=values)
        .execute()
    )
