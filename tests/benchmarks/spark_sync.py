"""The sync beside a plain ``foreachBatch`` with one MERGE a table, written by hand on the same topic; large batches and small ones.

Both begin with no targets and end with the shop's three tables, which are compared. The first run of each warms the JVM up and is not counted.
Processor time is that of this process, the JVM and all its Python workers; of the sync without Spark that of this process alone.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from examples.demo.shipped import PACKED, unpacked
from penstock import SyncOptions, sync
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.sessions import CORES, cpu_s, spark_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TOPIC, QUEUES = "shop", 8
TABLES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "customers": (
        ("customer_id",),
        {
            "customer_id": "bigint",
            "name": "string",
            "email": "string",
            "tier": "string",
            "balance": "decimal(12,2)",
            "notes": "string",
            "updated_at": "timestamp",
        },
    ),
    "orders": (
        ("order_id",),
        {
            "order_id": "bigint",
            "customer_id": "bigint",
            "status": "string",
            "amount": "decimal(12,2)",
            "created_at": "timestamp",
            "updated_at": "timestamp",
        },
    ),
    "order_items": (
        ("order_id", "line"),
        {"order_id": "bigint", "line": "bigint", "sku": "string", "quantity": "bigint", "price": "decimal(12,2)"},
    ),
}
_EVENT = "key map<string,string>, value struct<op: string, source: struct<table: string>, after: map<string,string>>"


def measure(options: Options) -> Iterator[Figure]:
    lines = list(unpacked(PACKED.read_bytes()))
    with spark_session(short=options.small) as spark, tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        if options.small:
            lines = lines[:: len(lines) // 200]  # of all three tables
        lake = str(Path(folder) / "lake")
        _fill(lake, lines)
        for events in (1_000,) if options.small else (71_828, 10_000):
            yield from _compare(spark, lake, Path(folder), len(lines), events, options)


def _compare(spark: SparkSession, lake: str, folder: Path, total: int, events: int, options: Options) -> Iterator[Figure]:
    ways: dict[str, Callable[[Path], object]] = {
        "sync": lambda into: _ours(spark, lake, into, events),
        "by hand": lambda into: _by_hand(spark, lake, into, events),
        "sync without Spark": lambda into: _ours(None, lake, into, events),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    processor_s: dict[str, list[float]] = {name: [] for name in ways}
    used_s: dict[str, Callable[[], float]] = {"sync": cpu_s, "by hand": cpu_s, "sync without Spark": time.process_time}
    for repeat in range(options.scaled(-1, 0), options.repeats):
        for name, way in ways.items():
            before_s, begun_s = used_s[name](), time.perf_counter()
            way(folder / f"{events}-{repeat}-{name}")
            if repeat >= 0:
                seconds[name].append(time.perf_counter() - begun_s)
                processor_s[name].append(used_s[name]() - before_s)
        _check_equal(spark, *(folder / f"{events}-{repeat}-{name}" for name in ways))
    note = f"{total:,} events of three tables, {events:,} a batch, {CORES} cores"
    targets = {"sync": 20_000, "sync without Spark": 60_000} if events > 50_000 else {}
    for name in ways:
        rates = [total / one for one in seconds[name]]
        yield Figure(
            name=f"{name}, {events:,} a batch",
            unit="events/s",
            better="higher",
            values=rates,
            note=note,
            target=targets.get(name),
        )
        yield Figure(name=f"{name}, {events:,} a batch: processor time", unit="s", values=processor_s[name], note=note)
    ratio = [100 * theirs / ours for theirs, ours in zip(seconds["by hand"], seconds["sync"], strict=True)]
    yield Figure(name=f"sync beside the one by hand, {events:,} a batch", unit="%", better="higher", values=ratio, target=200)
    ratio = [100 * theirs / ours for theirs, ours in zip(processor_s["by hand"], processor_s["sync"], strict=True)]
    yield Figure(
        name=f"sync beside the one by hand, {events:,} a batch: processor time", unit="%", better="higher", values=ratio, target=200
    )


def _ours(spark: SparkSession | None, lake: str, into: Path, events: int) -> None:
    columns = {table: types for table, (_, types) in TABLES.items()}
    run = sync(
        lake, TOPIC, SyncOptions(into=into, name=into.name.replace(" ", "-"), columns=columns, max_events=events), spark=spark
    )
    run.await_termination()
    assert not run.stopped


def _by_hand(spark: SparkSession, lake: str, into: Path, events: int) -> None:
    stream = (
        spark.readStream.format("penstock")
        .option("lake", lake)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", events)
        .load(TOPIC)
    )
    query = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{into}-checkpoint")
    query.foreachBatch(lambda batch, _: _merge_all(batch, into)).start().awaitTermination()


def _merge_all(batch: DataFrame, into: Path) -> None:
    from pyspark.sql import functions as F

    event = F.from_json(F.col("body").cast("string"), _EVENT)
    parsed = batch.select("offset", event.alias("event")).select(
        "offset",
        F.col("event.value.source.table").alias("table"),
        F.col("event.value.op").alias("op"),
        F.col("event.key").alias("key"),
        F.col("event.value.after").alias("row"),
    )
    parsed.persist()
    try:
        for table, (key, types) in TABLES.items():
            _merge(parsed.where(F.col("table") == table), f"{into}/{table}", key, types)
    finally:
        parsed.unpersist()


def _merge(events: DataFrame, path: str, key: Sequence[str], types: dict[str, str]) -> None:
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    keys = [F.col("key").getItem(name).alias(name) for name in key]
    last = events.groupBy(*keys).agg(F.max_by("op", "offset").alias("_op"), F.max_by("row", "offset").alias("_row"))
    texts = {name: F.col(f"`{name}`" if name in key else f"_row.`{name}`") for name in types}
    rows = last.select("_op", *(text.cast(types[name]).alias(name) for name, text in texts.items()))
    table = DeltaTable.createIfNotExists(events.sparkSession).location(path).addColumns(rows.drop("_op").schema).execute()
    values: dict[str, str | Column] = {f"`{name}`": F.col(f"s.`{name}`") for name in types}
    (
        table.alias("t")
        .merge(rows.alias("s"), reduce(and_, [F.col(f"t.`{name}`") == F.col(f"s.`{name}`") for name in key]))
        .whenMatchedDelete("s._op = 'd'")
        .whenMatchedUpdate(set=values)
        .whenNotMatchedInsert("s._op <> 'd'", values=values)
        .execute()
    )


def _check_equal(spark: SparkSession, first: Path, *others: Path) -> None:
    for table, (key, types) in TABLES.items():
        wanted, *found = [
            spark.read.format("delta").load(f"{into}/{table}").select(*types).orderBy(*key).toArrow() for into in (first, *others)
        ]
        assert wanted.num_rows, table
        assert all(rows.equals(wanted) for rows in found), table


def _fill(lake: str, lines: Sequence[bytes]) -> None:
    with penstock.connect(lake) as opened:
        opened.create_topic(TOPIC, queues=QUEUES, message_type="FIFO")
        with opened.producer(TOPIC) as producer:
            events = ((line, json.loads(line)) for line in lines)
            groups = ((line, f"{event['value']['source']['table']} {json.dumps(event['key'])}") for line, event in events)
            producer.send_batch([penstock.Message(body=line, message_group=group) for line, group in groups])
