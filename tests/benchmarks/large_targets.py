"""Merges into a target that grows: batches that change 1 % of its rows, scattered over all keys, or recent ones and a few old ones.

A target is made at once: files of rows in the order of their keys, as a snapshot leaves them, and one commit. Each way merges the same rows
into a copy of its own, whose files are links. Rows are merged as a sync does once it has folded its events, which costs the same for any
target. Afterwards 1,000 recent rows are merged, which tells what the first merge made of the layout. All targets must then be equal.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.transaction import AddAction, RemoveAction

from penstock.cdc.changes import ALWAYS
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.delta.merge_sql import APPLIES_UP_TO, COLUMN_POSITIONS, PUT
from penstock.cdc.events.sources import TableId
from penstock.cdc.target import POSITION, Target, TargetOwner
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.sessions import CORES, cpu_s, spark_session
from tests.cdc.columns import target_column

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import SparkSession

    from penstock.spark.sync.tables import SparkTargets

NAME = "orders"
TYPES = {"id": "bigint", "customer": "bigint", "status": "string", "amount": "decimal(12,2)", "updated_at": "timestamp"}
OWNER = TargetOwner("changes", 1, "bench")
_STATUS = pa.array(["new", "paid", "packed", "shipped", "delivered", "returned"])
_ROWS_PER_FILE = 4_000_000
_FILES_MIN = 8
_FEW = 1_000
_BEGINNING_US = 1_700_000_000_000_000
_LOOK_S = 0.02
_VECTORS = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
WITH_SPARK: Mapping[str, Sequence[str]] = {
    "with Spark": (),
    "with Spark, deletion vectors": (_VECTORS,),
    "with Spark, clustered": ("CLUSTER BY (id)",),
}
"""What is asked of a target before it is merged into, by way."""
WITHOUT, BY_HAND = "without Spark", "by hand"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge took."""

    seconds: float
    processor_s: float
    written_bytes: int
    files_written: int
    """Objects that were put: files of rows, of deletion vectors, and of the log."""
    files_left: int
    """Files of rows that the target has afterwards."""
    memory_bytes: int = 0


def measure(options: Options) -> Iterator[Figure]:
    """The sizes may be given by LARGE_TARGETS_ROWS, the ways by LARGE_TARGETS_WAYS, with ; between them: all take an hour."""
    sizes = os.environ.get("LARGE_TARGETS_ROWS", "20000" if options.small else "1000000,10000000,100000000")
    ways = os.environ.get("LARGE_TARGETS_WAYS", ";".join((WITHOUT, *WITH_SPARK, BY_HAND))).split(";")
    with ExitStack() as opened, tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        spark = None if ways == [WITHOUT] else opened.enter_context(spark_session(short=options.small))
        for count in map(int, sizes.split(",")):
            made = Path(folder) / f"{count}" / NAME
            made.parent.mkdir()
            make(made, count)
            for kind, ids in batches(count).items():
                yield from _compare(spark, made, kind, ids, ways)
            shutil.rmtree(made.parent)


def _compare(spark: SparkSession | None, made: Path, kind: str, ids: np.ndarray, ways: Sequence[str]) -> Iterator[Figure]:
    count = int(made.parent.name)
    recent = 2 * np.arange(count - min(count, _FEW), count)
    sums = {}
    for way in ways:
        into = made.parent / kind / way / NAME
        shutil.copytree(made, into, copy_function=os.link)
        steps = [(rows(ids, 2), 1), (rows(recent, 3), 2)]
        merged = _in_a_process(into, steps) if spark is None or way == WITHOUT else _by_spark(spark, into, way, steps)
        sums[way] = _sums(into)
        assert len({*sums.values()}) == 1, sums
        shutil.rmtree(into.parent)
        name = f"{way}, {count:,} rows, {len(ids):,} {kind}"
        first, then = merged
        note = f"{first.files_written} files put, {first.files_left} left, {CORES} cores"
        yield Figure(name=name, unit="s", values=[first.seconds], note=note)
        yield Figure(name=f"{name}: processor time", unit="s", values=[first.processor_s])
        yield Figure(name=f"{name}: written", unit="MiB", values=[first.written_bytes / 2**20])
        if first.memory_bytes:
            yield Figure(
                name=f"{name}: memory", unit="MiB", values=[first.memory_bytes / 2**20], note="RSS of the process, at most"
            )
        note = f"{then.written_bytes / 2**20:.1f} MiB written, {then.processor_s:.2f} s of the processor"
        yield Figure(name=f"{name}: then {len(recent):,} recent", unit="s", values=[then.seconds], note=note)


def _sums(into: Path) -> tuple[object, ...]:
    query = f"select count(*), sum(id), sum({POSITION}), sum(amount) from t"
    found = pa.table(QueryBuilder().register("t", DeltaTable(into)).execute(query).read_all())
    return tuple(column[0].as_py() for column in found.columns)


def batches(count: int) -> dict[str, np.ndarray]:
    """The ids of a batch, by kind: 1 % of the rows."""
    chance, changed = np.random.default_rng(7), count // 100
    new = 2 * np.arange(count - changed, count) + (np.arange(changed) % 10 == 0)
    return {
        "scattered": 2 * np.sort(chance.choice(count, changed, replace=False)),
        "recent and old": np.concatenate([2 * np.array([0, count // 3]), new]),
    }


# --- Ways -----------------------------------------------------------------------------------------------------------------------


def _in_a_process(into: Path, steps: Sequence[tuple[pa.Table, int]]) -> list[Merged]:
    """The merges of a sync without Spark, in a process of its own, whose memory is theirs."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_without_spark, args=(into, steps, there))
    process.start()
    there.close()
    try:
        merged: list[Merged] = here.recv()
    finally:
        process.join()
    return merged


def _without_spark(into: Path, steps: Sequence[tuple[pa.Table, int]], parent: Connection) -> None:
    tables, merged = DeltalakeTargets(str(into.parent), by_position=True), []
    memory_bytes, enough = [0], threading.Event()

    def look() -> None:
        while not enough.wait(_LOOK_S):
            memory_bytes[0] = max(memory_bytes[0], psutil.Process().memory_info().rss)

    with closing(parent):
        threading.Thread(target=look, daemon=True).start()
        for step in steps:
            memory_bytes[0] = 0
            merged.append(_taken(into, time.process_time, partial(_ours, tables, *step), memory_bytes))
        enough.set()
        parent.send(merged)


def _by_spark(spark: SparkSession, into: Path, way: str, steps: Sequence[tuple[pa.Table, int]]) -> list[Merged]:
    from penstock.spark.sync.tables import SparkTargets

    for asked in WITH_SPARK.get(way, ()):
        spark.sql(f"ALTER TABLE delta.`{into}` {asked}")
    tables = SparkTargets(spark, str(into.parent), by_position=True, driver_targets=None)

    def merge(changed: pa.Table, number: int) -> None:
        if way == BY_HAND:
            _by_hand(spark, into, changed)
        else:
            _ours(tables, changed, number)

    return [_taken(into, cpu_s, partial(merge, *step)) for step in steps]


def _ours(tables: DeltalakeTargets | SparkTargets, changed: pa.Table, number: int) -> None:
    travelling = {
        PUT: pa.array(np.ones(len(changed), bool)),
        APPLIES_UP_TO: pa.array(np.full(len(changed), ALWAYS)),
        COLUMN_POSITIONS: pa.nulls(len(changed), pa.list_(pa.int64())),
    }
    for name, values in travelling.items():
        changed = changed.append_column(name, values)
    assert tables.merge(target(number), changed, OWNER, partial=False)


def _by_hand(spark: SparkSession, into: Path, changed: pa.Table) -> None:
    from delta.tables import DeltaTable as SparkTable

    values: dict[str, str | SparkColumn] = {name: f"s.{name}" for name in changed.column_names}
    merging = SparkTable.forPath(spark, str(into)).alias("t").merge(spark.createDataFrame(changed).alias("s"), "t.id = s.id")
    merging.whenMatchedUpdate(set=values).whenNotMatchedInsert(values=values).execute()


def _taken(into: Path, used_s: Callable[[], float], work: Callable[[], None], memory_bytes: Sequence[int] = (0,)) -> Merged:
    before, begun_s, begun_used_s = _sizes(into), time.perf_counter(), used_s()
    work()
    seconds, processor_s = time.perf_counter() - begun_s, used_s() - begun_used_s
    new = {file: size for file, size in _sizes(into).items() if file not in before}
    left = len(DeltaTable(into).file_uris())
    return Merged(seconds, processor_s, sum(new.values()), len(new), left, memory_bytes[0])


def _sizes(into: Path) -> dict[Path, int]:
    return {file: file.stat().st_size for file in into.rglob("*") if file.is_file() and file.suffix != ".crc"}


# --- Targets --------------------------------------------------------------------------------------------------------------------


def target(commits: int) -> Target:
    made = Target(TableId("s", NAME), NAME, tuple(target_column(*one) for one in TYPES.items()), ("id",))
    for number in range(commits):
        made = made.reached({0: number + 1}, None)
    return made


def make(path: Path, count: int) -> None:
    """A target of so many rows, with even ids, so that there is room between them."""
    DeltalakeTargets(str(path.parent), by_position=True).create(target(0), OWNER)
    per_file = min(_ROWS_PER_FILE, max(1, count // _FILES_MIN))
    actions: list[AddAction | RemoveAction] = []
    for number, start in enumerate(range(0, count, per_file)):
        ids = 2 * np.arange(start, min(count, start + per_file))
        file = path / f"part-{number:05}.parquet"
        pq.write_table(rows(ids, 1), file, row_group_size=1_000_000, use_dictionary=["status"])
        stats = {
            "numRecords": len(ids),
            "minValues": {"id": int(ids[0])},
            "maxValues": {"id": int(ids[-1])},
            "nullCount": {"id": 0},
        }
        actions.append(
            AddAction(file.name, file.stat().st_size, {}, _BEGINNING_US // 1_000, data_change=True, stats=json.dumps(stats))
        )
    table = DeltaTable(path)
    table.create_write_transaction(actions, "append", table.schema())


def rows(ids: np.ndarray, position: int) -> pa.Table:
    """Rows of these ids, as of a position of the source."""
    mixed = (ids * 2_654_435_761 + position * 40_503) % 4_294_967_291
    amounts = pa.array(mixed % 1_000_000).cast(pa.decimal128(21, 2))  # Arrow wants room for all of an int64
    return pa.table(
        {
            "id": pa.array(ids),
            "customer": pa.array(mixed % 5_000_000),
            "status": _STATUS.take(pa.array(mixed % len(_STATUS))),
            "amount": amounts.cast(pa.decimal128(12, 2)),
            "updated_at": pa.array(_BEGINNING_US + ids * 1_000 + position).cast(pa.timestamp("us", "UTC")),
            POSITION: pa.array(np.full(len(ids), position)),
        }
    )
