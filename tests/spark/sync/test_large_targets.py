"""Targets that grow: merges by Spark read the files that may have their keys, and targets may have deletion vectors and be clustered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from deltalake import DeltaTable

from penstock import SyncOptions, sync
from penstock.cdc.delta.compaction import TargetCompactionResult
from penstock.spark.sync.tables import SparkTargets
from tests.cdc.sync.crashes import Crash, CrashAt
from tests.cdc.sync.streams import TOPIC, Row, event, send
from tests.spark.sync.engines import BY_SPARK, BY_TASKS, Way, merged_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def change(op: str, number: int, **more: object) -> Row:
    key = {"id": number}
    return event(op, "t", key, None if op == "d" else {**key, **more}, before=key if op == "d" else None)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "history"),
    [
        pytest.param(BY_TASKS, False, id="by tasks", marks=pytest.mark.thorough),
        pytest.param(BY_TASKS, True, id="by tasks, with history"),
        pytest.param(BY_SPARK, False, id="merged by Spark", marks=pytest.mark.thorough),
        pytest.param(BY_SPARK, True, id="merged by Spark, with history", marks=pytest.mark.thorough),
    ],
)
def test_a_merge_reads_no_file_between_its_keys(spark: SparkSession, tmp_path: Path, way: Way, history: bool) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"

    def applied(*events: Row) -> None:
        send(lake, events, queues=2)
        run = sync(lake, TOPIC, SyncOptions(into=into, history=history, **way), spark=spark)
        assert run.await_termination()
        assert run.stopped == {}

    for first in (0, 1_000, 2_000):
        applied(*(change("c", n, v=0) for n in range(first, first + 20)))
    between = [Path(file) for file in DeltaTable(str(into / "t")).file_uris() if _ids(file) <= {*range(1_000, 1_020)}]
    kept = {file: file.read_bytes() for file in between}
    assert kept
    for file in kept:
        file.write_bytes(b"nothing")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    applied(change("u", 5, v=1), change("d", 2_005), change("u", 2_006, v=1), change("c", 9_000, v=1))
    assert set(merged_by(into / "t")) == {"spark"}
    for file, content in kept.items():
        file.write_bytes(content)
    now = spark.read.format("delta").load(str(into / "t")).where("__current" if history else "true")
    assert now.count() == 60
    assert sorted(row.id for row in now.where("v = 1").collect()) == [5, 2_006, 9_000]


def _ids(file: str) -> set[int]:
    import pyarrow.parquet as pq

    return {*pq.read_table(file, columns=["id"]).column("id").to_pylist()}


ASKED = {
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "clustered": "CLUSTER BY (id)",
    "both": "CLUSTER BY (id) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
}


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.thorough), "after"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name == "both" else pytest.mark.thorough) for name in ASKED])
def test_a_driver_ends_beside_its_merge_into_what_spark_alone_writes(
    spark: SparkSession, tmp_path: Path, name: str, moment: Literal["before", "after"]
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    spark.sql(f"CREATE TABLE delta.`{into / 't'}` (id BIGINT, v BIGINT) USING delta {ASKED[name]}")
    send(lake, [change("c", n, v=0) for n in range(20)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into, adopt=True, compact_every=0, **BY_SPARK), spark=spark).await_termination()
    send(lake, [change("u", 3, v=1), change("d", 4), change("c", 99, v=2), change("u", 3, v=3)], queues=1)
    with pytest.raises(Crash):
        sync(lake, TOPIC, SyncOptions(into=into, **BY_SPARK), spark=spark, steps=CrashAt("merge", moment)).await_termination()
    run = sync(lake, TOPIC, SyncOptions(into=into, compact_every=1, **BY_SPARK), spark=spark)
    assert run.await_termination()
    assert run.stopped == {}
    found = {row.id: row.v for row in spark.read.format("delta").load(str(into / "t")).collect()}
    assert found == {n: 0 for n in range(20) if n != 4} | {3: 3, 99: 2}


def test_the_engine_without_spark_sees_deletion_vectors(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    spark.sql(f"CREATE TABLE delta.`{into / 't'}` (id BIGINT, v BIGINT) USING delta {ASKED['vectors']}")
    send(lake, [change("c", n, v=0) for n in range(20)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into, adopt=True, **BY_SPARK), spark=spark).await_termination()
    send(lake, [change("d", 4)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into, **BY_SPARK), spark=spark).await_termination()
    send(lake, [change("u", 5, v=7)], queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into))
    assert run.await_termination()
    assert run.stopped == {}
    found = {row.id: row.v for row in spark.read.format("delta").load(str(into / "t")).collect()}
    assert found == {n: 0 for n in range(20) if n != 4} | {5: 7}


def test_spark_puts_files_together_up_to_the_size_of_the_target(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for number in range(2):
        send(lake, [change("c", number, v=0)], queues=1)
        assert sync(lake, TOPIC, SyncOptions(into=into, **BY_SPARK), spark=spark).await_termination()
    tables = SparkTargets(spark.newSession(), str(into), by_position=True, driver_targets=None)
    DeltaTable(str(into / "t")).alter.set_table_properties({"delta.targetFileSize": "100"})
    spark.catalog.clearCache()
    assert tables.compact("t") == TargetCompactionResult(0, 0)
    DeltaTable(str(into / "t")).alter.set_table_properties({"delta.targetFileSize": "1000000"})
    assert tables.compact("t") == TargetCompactionResult(2, 1)
