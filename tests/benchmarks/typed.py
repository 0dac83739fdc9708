"""Typed topics beside JSON bodies and beside plain Parquet, by Spark: the same million rows of twelve fields, each way.

The ways are measured in turns. Two columns are aggregated, so that a scan reads and decodes them and nothing else counts.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.log import LogLake, TopicSettings
from penstock.log.schema.topic_schema import schema_of_source
from penstock.log.stores.local import LocalStore
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.sessions import CORES, spark_session
from tests.benchmarks.topics import maintenance_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 8
SCHEMA = """id bigint not null, customer string, amount decimal(12,2), quantity int, paid boolean, at timestamp, day date, price double,
    sku string, country string, note string, address struct<city: string, zip: int>"""
_WARM_UP_S = 8
"""How long each way runs before it is measured: planning by Delta takes 70 ms of a session's first queries and 10 ms of its later ones."""
_SEND_ROWS = 100_000
_CITIES = ("Ulm", "Berlin", "Hamburg", "Graz", "Bern", "Lyon", "Oslo", "Turin")


def measure(options: Options) -> Iterator[Figure]:
    count = options.scaled(1_000_000, 4_000)
    with spark_session(short=options.small) as spark, tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder)
        rows = _rows(count)
        asyncio.run(_fill(root / "lake", rows))
        _write_plainly(root, rows)
        yield from _bytes(root, count)
        yield from _compare(spark, root, count, options)


def _compare(spark: SparkSession, root: Path, count: int, options: Options) -> Iterator[Figure]:
    typed, bodies = (_files(root, name) for name in ("typed", "json"))
    plain = [str(path) for path in sorted((root / "plain").glob("*.parquet"))]
    as_json = f"from_json(CAST(body AS string), '{SCHEMA.replace(' not null', '')}') AS value"
    ways: dict[str, Callable[[], object]] = {
        "typed": lambda: _two(spark.read.format("delta").load(_table(root, "typed"))),
        "typed files": lambda: _two(spark.read.parquet(*typed)),
        "plain": lambda: _two(spark.read.parquet(*plain)),
        "plain Delta": lambda: _two(spark.read.format("delta").load(str(root / "delta"))),
        "bodies": lambda: _two(spark.read.format("delta").load(_table(root, "json")).selectExpr(as_json)),
        "source, typed": lambda: _drain(_ours(spark, root, "typed")),
        "source, bodies": lambda: _drain(_ours(spark, root, "json")),
        "source, two fields": lambda: _two(_ours(spark, root, "typed", columns="value.quantity, value.price")),
        "source, from_json": lambda: _two(_ours(spark, root, "json", columns="body").selectExpr(as_json)),
    }
    spark.read.parquet(*plain).write.format("delta").save(str(root / "delta"))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        until_s = time.perf_counter() + options.scaled(_WARM_UP_S, 0)
        while time.perf_counter() < until_s:
            way()
    for _ in range(options.repeats):
        for name, way in ways.items():
            begun_s = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - begun_s)
    note = f"{count:,} rows of 12 fields, {len(typed)} typed files, {len(bodies)} of bodies, {CORES} tasks"
    for name, values in seconds.items():
        yield Figure(name=name, unit="s", values=values, note=note)
    yield _ratio("two typed columns beside from_json(body)", seconds["bodies"], seconds["typed"], target=1000)
    yield _ratio("two typed columns beside plain Parquet", seconds["plain"], seconds["typed"], target=95)
    yield _ratio("two typed columns beside a plain Delta table", seconds["plain Delta"], seconds["typed"])
    yield _ratio("the same files without Delta beside plain Parquet", seconds["plain"], seconds["typed files"])
    yield _ratio("the source, typed rows beside JSON bodies", seconds["source, bodies"], seconds["source, typed"], target=90)
    yield _ratio("the source, two fields beside from_json(body)", seconds["source, from_json"], seconds["source, two fields"])


def _bytes(root: Path, count: int) -> Iterator[Figure]:
    sizes = {name: sum(Path(one).stat().st_size for one in _files(root, name)) for name in ("typed", "json")}
    for name, size in sizes.items():
        yield Figure(name=f"bytes a row in the table, {name}", unit="B", values=[size / count])
    yield Figure(name="bytes of typed rows beside JSON bodies", unit="%", values=[100 * sizes["typed"] / sizes["json"]])


def _ratio(name: str, theirs: list[float], ours: list[float], *, target: float | None = None) -> Figure:
    values = [100 * their / our for their, our in zip(theirs, ours, strict=True)]
    return Figure(name=name, unit="%", better="higher", values=values, target=target)


def _two(frame: DataFrame) -> object:
    """Scan two columns."""
    return frame.selectExpr("sum(value.quantity)", "sum(value.price)").collect()


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _ours(spark: SparkSession, root: Path, topic: str, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(lake=str(root / "lake"), numTasks=str(CORES), **options).load(topic)


def _table(root: Path, topic: str) -> str:
    return str(root / "lake" / "topics" / topic / "table")


def _files(root: Path, topic: str) -> list[str]:
    return [str(path) for path in sorted(Path(_table(root, topic)).glob("queue=*/*.parquet"))]


# --- The stage -------------------------------------------------------------------------------------------------------------------


async def _fill(root: Path, rows: pa.Table) -> None:
    """The same rows as fields and as JSON bodies, published and merged."""
    bodies = pa.table({"body": pa.array([json.dumps(row, default=str).encode() for row in rows.to_pylist()], pa.binary())})
    async with LogLake(LocalStore(root)) as lake:
        for name, data in (("typed", rows), ("json", bodies)):
            schema = schema_of_source(SCHEMA) if name == "typed" else None
            await lake.create_topic(name, TopicSettings(queues=QUEUES, schema=schema))
            topic = await lake.topic(name, writable=True)
            producer = await lake.producer(name)
            for start in range(0, data.num_rows, _SEND_ROWS):
                await producer.send_batch(data.slice(start, _SEND_ROWS))
            await producer.close()
            maintenance = maintenance_of(topic.store, topic)
            while not (await maintenance.publish()).caught_up:
                pass
            while (await maintenance.compact()).files:
                pass


def _write_plainly(root: Path, rows: pa.Table) -> None:
    """The rows as Parquet, as pyarrow writes it: in one struct, in as many files as there are queues."""
    value = pa.StructArray.from_arrays([column.combine_chunks() for column in rows.columns], fields=list(rows.schema))
    whole = pa.table({"value": value})
    (root / "plain").mkdir()
    each = -(-rows.num_rows // QUEUES)
    for number in range(QUEUES):
        pq.write_table(whole.slice(number * each, each), root / "plain" / f"{number}.parquet", compression="zstd")


def _rows(count: int) -> pa.Table:
    """Orders: numbers, texts of few and of many values, and times, as applications have them."""
    draw = np.random.default_rng(1)
    cents = draw.integers(100, 1_000_000, count)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = pa.array(np.datetime64(start.replace(tzinfo=None), "us") + np.sort(draw.integers(0, 86_400_000_000, count)))
    at = times.cast(pa.timestamp("us", "UTC"))
    city = draw.integers(0, len(_CITIES), count)
    words = np.array([f"word{number}" for number in range(500)])
    notes = [" ".join(one) for one in words[draw.integers(0, len(words), (count, 4))]]
    address = pa.StructArray.from_arrays(
        [pa.array(np.array(_CITIES)[city].tolist(), pa.string()), pa.array(draw.integers(10_000, 99_999, count).astype(np.int32))],
        names=["city", "zip"],
    )
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "customer": pa.array([f"customer-{number}" for number in draw.integers(0, 50_000, count)]),
            "amount": pa.array(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            "quantity": pa.array(draw.integers(1, 100, count).astype(np.int32)),
            "paid": pa.array(draw.integers(0, 2, count).astype(bool)),
            "at": at,
            "day": pa.array([(start + timedelta(days=int(number))).date() for number in draw.integers(0, 30, count)]),
            "price": pa.array(np.round(draw.random(count) * 1000, 2)),
            "sku": pa.array([f"sku-{number:05d}" for number in draw.integers(0, 5_000, count)]),
            "country": pa.array(np.array(["DE", "AT", "CH", "FR"])[draw.integers(0, 4, count)].tolist()),
            "note": pa.array(notes),
            "address": address,
        }
    )
