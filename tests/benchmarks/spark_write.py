"""Spark's ordered write beside Spark's own ordered write of Parquet: the same rows, queues, order and number of tasks.

Both read one Parquet file, route, shuffle, sort within each queue and write zstd. Ours also makes message ids, checks limits, and commits in
the log. Measured in turns; processor time is what neighbours on the machine change least.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.spark import write_ordered
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.sessions import CORES, cpu_s, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 8
GROUPS = 10_000
LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


def measure(options: Options) -> Iterator[Figure]:
    with spark_session(short=options.small) as spark, tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for body_bytes, rows in ((100, 2_000),) if options.small else ((100, 1_000_000), (1000, 200_000)):
            yield from _beside_parquet(spark, Path(folder), body_bytes, rows, options.repeats)
        yield _small_batches(spark, Path(folder), options.scaled(20, 2))


def _beside_parquet(spark: SparkSession, folder: Path, body_bytes: int, rows: int, repeats: int) -> Iterator[Figure]:
    source = folder / f"source-{body_bytes}.parquet"
    pq.write_table(_rows(rows, body_bytes), source, row_group_size=rows // 8 or 1)
    seconds, cpu = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    with penstock.connect(folder / f"lake-{body_bytes}", maintenance=False) as lake:
        ways: dict[str, Callable[[DataFrame, int], object]] = {
            "Spark's ordered write of Parquet": lambda df, _: _native(df, folder / "native"),
            "write_ordered": lambda df, run: _ours(df, lake, f"topic-{run}"),
        }
        for run in range(repeats + 1):
            for name, way in ways.items():
                before_s, started = cpu_s(), time.perf_counter()
                way(spark.read.parquet(str(source)), run)
                if run:  # the first round warms up
                    seconds[name].append(time.perf_counter() - started)
                    cpu[name].append(cpu_s() - before_s)
            shutil.rmtree(folder / f"lake-{body_bytes}" / "topics" / f"topic-{run}", ignore_errors=True)
    what = f"{rows:,} rows of {body_bytes} B in {QUEUES} queues, {CORES} cores"
    for name in ways:
        values = [rows / one for one in seconds[name]]
        yield Figure(name=f"{name}, {body_bytes} B", unit="rows/s", better="higher", values=values, note=what)
    native, ours = ways
    for label, of in (("", seconds), (", by processor time", cpu)):
        values = [100 * theirs / our for theirs, our in zip(of[native], of[ours], strict=True)]
        name = f"write_ordered beside Spark's ordered write, {body_bytes} B{label}"
        yield Figure(name=name, unit="%", better="higher", values=values, target=80)


def _native(df: DataFrame, folder: Path) -> None:
    from pyspark.sql import functions as F

    routed = df.withColumn("queue", F.pmod(F.xxhash64("message_group"), F.lit(QUEUES)).cast("int"))
    tasks = F.pmod(F.col("queue"), F.lit(CORES))
    ordered = routed.repartitionById(CORES, tasks).sortWithinPartitions("queue", "seq")
    ordered.select("queue", "message_group", "body").write.mode("overwrite").option("compression", "zstd").parquet(str(folder))


def _ours(df: DataFrame, lake: penstock.Lake, topic: str) -> None:
    lake.create_topic(topic, message_type="FIFO", queues=QUEUES)
    write_ordered(df, lake, topic, message_group="message_group", order_by="seq", body="body")


def _small_batches(spark: SparkSession, folder: Path, batches: int) -> Figure:
    """What a batch costs at least: ten rows, one after the other, as micro-batches of a stream come."""
    with penstock.connect(folder / "lake-small", maintenance=False) as lake:
        lake.create_topic("small", message_type="FIFO", queues=QUEUES)
        rows = spark.range(10).selectExpr("concat('g-', id) message_group", "id seq")
        values = []
        for batch in range(batches + 1):
            started = time.perf_counter()
            write_ordered(rows, lake, "small", message_group="message_group", order_by="seq", name="bench", batch_id=batch)
            values.append(1000 * (time.perf_counter() - started))
    return Figure(name="write_ordered of 10 rows", unit="ms", values=values[1:], note="the name opened anew each time")


def _rows(count: int, body_bytes: int) -> pa.Table:
    """Bodies of random letters, in no order."""
    chance = np.random.default_rng(1)
    numbers = chance.permutation(count)
    letters = LETTERS[chance.integers(0, len(LETTERS), count * body_bytes, np.uint8)]
    ends = np.arange(count + 1, dtype=np.int32) * body_bytes
    bodies = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    groups = pa.array([f"group-{number}" for number in range(GROUPS)]).take(pa.array(numbers % GROUPS))
    return pa.table({"message_group": groups, "seq": numbers, "body": bodies})
