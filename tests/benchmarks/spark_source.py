"""Spark's source beside Spark's own reader of Parquet on the same files, per batch and per trigger; and what a trigger costs at least.

Each pair is measured in turns. Processor time, of the JVM and all its Python workers, ended ones too, is what neighbours on the machine change
least; of a stream it is that of the whole query, with its start.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.log import MESSAGE_SCHEMA, LogLake
from penstock.log.message.message import RARE
from penstock.log.stores.local import LocalStore
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.sessions import CORES, cpu_s, spark_session
from tests.benchmarks.topics import TOPIC, create, fill, publish, table_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 8
COLUMNS = [name for name in MESSAGE_SCHEMA.names if name not in RARE]
"""The columns that all ways read: those that the files have."""
_WARM_UP_ROUNDS = 4
"""In the first ones the JVM compiles much of what it runs, and not of each way alike."""
LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


def measure(options: Options) -> Iterator[Figure]:
    with spark_session(short=options.small) as spark:
        for body_bytes, rows in ((100, 2_000),) if options.small else ((100, 1_600_000), (1000, 400_000)):
            yield from _throughput(spark, body_bytes, rows, options.repeats, options.scaled(_WARM_UP_ROUNDS, 0))
        for queues in (8,) if options.small else (8, 64, 256):
            yield _floor(spark, queues, options.scaled(20, 2))


# --- Throughput ------------------------------------------------------------------------------------------------------------------


@dataclass
class _Runs:
    """One way to read, run after run."""

    seconds: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def run(self, work: Callable[[], tuple[float, float] | None]) -> None:
        """``work`` returns how long the first trigger and a later one took, if it is a stream."""
        before, start_s = cpu_s(), time.perf_counter()
        triggers_s = work()
        first_s, later_s = triggers_s or (0.0, time.perf_counter() - start_s)
        self.first_s.append(first_s)
        self.seconds.append(later_s)
        self.cpu_s.append(cpu_s() - before)


def _throughput(spark: SparkSession, body_bytes: int, rows: int, repeats: int, warm_ups: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder) / "lake"
        asyncio.run(_fill(root, rows, body_bytes))
        files = [str(path) for path in table_files(root)]
        table = str(root / "topics" / TOPIC / "table")
        ways: dict[str, Callable[[], tuple[float, float] | None]] = {
            "parquet": lambda: _drain(spark.read.parquet(*files).select(*COLUMNS)),
            "delta": lambda: _drain(spark.read.format("delta").load(table).select(*COLUMNS)),
            "ours": lambda: _drain(_ours(spark, root)),
            "no rows": lambda: _drain(_ours(spark, root, startingOffsets="latest")),
            "no rows of parquet": lambda: _drain(spark.read.parquet(*files).select(*COLUMNS).where("offset < 0")),
            "parquet stream": lambda: _triggers(spark, "parquet", table, Path(folder), rows, len(files)),
            "delta stream": lambda: _triggers(spark, "delta", table, Path(folder), rows, len(files)),
            "our stream": lambda: _triggers(spark, "penstock", str(root), Path(folder), rows, len(files)),
        }
        runs = {name: _Runs() for name in ways}
        for repeat in range(-warm_ups, repeats):
            for name, way in ways.items():
                (runs[name] if repeat >= 0 else _Runs()).run(way)
    what = f"{rows:,} rows of {body_bytes} B in {len(files)} files, {CORES} tasks"
    for name, label in {
        "parquet": "spark.read.parquet",
        "delta": "Delta batch",
        "ours": "our batch",
        "parquet stream": "Parquet stream, the later of two triggers",
        "delta stream": "Delta stream, the later of two triggers",
        "our stream": "our stream, the later of two triggers",
    }.items():
        values = [rows / seconds for seconds in runs[name].seconds]
        yield Figure(name=f"{label}, {body_bytes} B", unit="rows/s", better="higher", values=values, note=what)
    yield Figure(name=f"our batch of no rows, {body_bytes} B", unit="s", values=runs["no rows"].seconds)
    yield Figure(name=f"spark.read.parquet of no rows, {body_bytes} B", unit="s", values=runs["no rows of parquet"].seconds)
    name = f"our batch beside spark.read.parquet, {body_bytes} B"
    yield _ratio(name, runs["parquet"].seconds, runs["ours"].seconds)
    yield _ratio(f"{name}, by processor time", runs["parquet"].cpu_s, runs["ours"].cpu_s)
    theirs = _without(runs["parquet"].cpu_s, runs["no rows of parquet"].cpu_s)
    yield _ratio(f"{name}, by processor time without start-up", theirs, _without(runs["ours"].cpu_s, runs["no rows"].cpu_s))
    for kind in ("Parquet", "Delta"):
        name = f"our trigger beside a {kind} stream's, {body_bytes} B"
        native, ours = runs[f"{kind.lower()} stream"], runs["our stream"]
        yield _ratio(name, native.seconds, ours.seconds)
        yield _ratio(f"{name}, in the first trigger of a query", native.first_s, ours.first_s, target=None)
        yield _ratio(f"{name}, by processor time of the query with its start", native.cpu_s, ours.cpu_s, target=None)


def _ratio(name: str, theirs: list[float], ours: list[float], *, target: float | None = 70) -> Figure:
    """Theirs by ours, run by run."""
    values = [100 * their / our for their, our in zip(theirs, ours, strict=True)]
    return Figure(name=name, unit="%", better="higher", values=values, target=target)


def _without(costs: list[float], none: list[float]) -> list[float]:
    """What the rows cost alone; at a tiny scale nothing that could be measured."""
    return [max(cost - float(np.median(none)), 0.01) for cost in costs]


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _ours(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return (
        spark.read.format("penstock").options(lake=str(root), numTasks=str(CORES), columns=",".join(COLUMNS), **options).load(TOPIC)
    )


def _triggers(spark: SparkSession, kind: str, path: str, folder: Path, rows: int, files: int) -> tuple[float, float]:
    """Read half of the rows in a trigger, then the rest in another; how long their batches took, as if each had all rows.

    That is without planning and checkpoint, but in a query's first trigger Spark has Python plan the read.
    """
    reader = spark.readStream.format(kind)
    if kind == "penstock":
        reader = reader.options(lake=path, startingOffsets="earliest", numTasks=str(CORES), maxOffsetsPerTrigger=str(rows // 2))
        frame = reader.option("columns", ",".join(COLUMNS)).load(TOPIC)
    elif kind == "parquet":
        schema = spark.read.option("recursiveFileLookup", "true").parquet(path).schema
        frame = reader.schema(schema).options(recursiveFileLookup="true", maxFilesPerTrigger=str(files // 2)).load(path)
    else:
        frame = reader.option("maxFilesPerTrigger", str(files // 2)).load(path)
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        writer = frame.select(*COLUMNS).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [progress for progress in query.recentProgress if progress.numInputRows]
    assert sum(batch.numInputRows for batch in batches) == rows
    first_s, *_, later_s = (batch.durationMs["addBatch"] / 1000 * rows / batch.numInputRows for batch in batches)
    return first_s, later_s


# --- The floor of a trigger ------------------------------------------------------------------------------------------------------


def _floor(spark: SparkSession, queues: int, triggers: int) -> Figure:
    """Triggers of 10 rows a queue, one after the other."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder) / "lake"
        asyncio.run(_fill(root, 10 * queues * (triggers + 2), 100, queues=queues))
        reader = spark.readStream.format("penstock").options(
            lake=str(root), startingOffsets="earliest", maxOffsetsPerTrigger=str(10 * queues), numTasks=str(CORES)
        )
        writer = reader.load(TOPIC).writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        durations = [progress.durationMs["triggerExecution"] for progress in query.recentProgress if progress.numInputRows]
    return Figure(name=f"a trigger of 10 rows a queue, {queues} queues", unit="ms", values=durations[2:] or durations)


# --- The stage -------------------------------------------------------------------------------------------------------------------


async def _fill(root: Path, rows: int, body_bytes: int, *, queues: int = QUEUES) -> None:
    async with LogLake(LocalStore(root)) as lake:
        topic = await create(lake, queues)
        await fill(lake, _rows(max(rows // 4, 1), body_bytes), 4)
        await publish(topic)


def _rows(count: int, body_bytes: int) -> pa.Table:
    """Bodies of random letters: what compresses to nothing costs a reader of Parquet nothing, and no application has it."""
    letters = LETTERS[np.random.default_rng(1).integers(0, len(LETTERS), count * body_bytes, np.uint8)]
    ends = np.arange(count + 1, dtype=np.int32) * body_bytes
    bodies = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    groups = pa.array([f"group-{number}" for number in range(10_000)]).take(pa.array(np.arange(count) % 10_000))
    return pa.table({"body": bodies, "message_group": groups})
