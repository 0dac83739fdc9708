"""Small merges that the driver makes by deltalake, beside those that Spark makes."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable

from penstock import SyncOptions, sync
from penstock.cdc.delta.compaction import FILES_MIN
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.events.sources import TableId
from penstock.cdc.target import Target, TargetOwner
from penstock.log.errors import InvalidArgument
from penstock.spark.sync.driver_targets import DriverTargets
from penstock.spark.sync.tables import SparkTargets
from tests.cdc.columns import target_column
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send
from tests.spark.sync.engines import BY_SPARK, BY_TASKS, IN_DRIVER, made_by, merged_by
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def change(op: str, table: str, number: int, **more: object) -> Row:
    key = {"id": number}
    return event(op, table, key, None if op == "d" else {**key, **more}, before=key if op == "d" else None)


def applied(spark: SparkSession, tmp_path: Path, *events: Row, **given: Any) -> Path:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, events, queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into, **given), spark=spark)
    assert run.await_termination()
    assert run.stopped == {}
    return into


def test_both_ways_take_turns_and_spark_sees_each_commit_at_once(spark: SparkSession, tmp_path: Path) -> None:
    into = applied(spark, tmp_path, *(change("c", "t", n, v=0) for n in range(4)), **IN_DRIVER)
    for turn, way in enumerate((BY_SPARK, IN_DRIVER, BY_TASKS, IN_DRIVER), start=1):
        applied(
            spark,
            tmp_path,
            change("u", "t", 0, v=turn),
            change("d", "t", turn - 1) if turn > 1 else change("c", "t", 9, v=9),
            **way,
        )
        again = spark.read.format("delta").load(str(into / "t"))
        assert sorted(map(tuple, again.select("id", "v").collect())) == [(row["id"], row["v"]) for row in rows(into / "t")]
    assert rows(into / "t") == [{"id": 0, "v": 4}, {"id": 9, "v": 9}]
    assert merged_by(into / "t") == ["deltalake", "spark", "deltalake", "spark", "deltalake"]


ASKING = {
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "tracked": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "clustered": "CLUSTER BY (id)",
    "partitioned": "PARTITIONED BY (v)",
}


@pytest.mark.thorough
def test_targets_that_ask_more_of_their_writers_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    into = tmp_path / "targets"
    for name, asked in ASKING.items():
        spark.sql(f"CREATE TABLE delta.`{into / name}` (id BIGINT, v BIGINT) USING delta {asked}")
    spark.sql(f"CREATE TABLE delta.`{into / 'filled'}` (id BIGINT NOT NULL, v BIGINT) USING delta")
    spark.sql(f"CREATE TABLE delta.`{into / 'checked'}` (id BIGINT, v BIGINT) USING delta")
    spark.sql(f"ALTER TABLE delta.`{into / 'checked'}` ADD CONSTRAINT positive CHECK (v > 0)")
    names = [*ASKING, "filled", "checked"]
    applied(spark, tmp_path, *(change("u", name, 1, v=2) for name in [*names, "plain"]), adopt=True)
    assert {name: merged_by(into / name) for name in names} == {name: ["spark"] for name in names}
    assert merged_by(into / "plain") == ["deltalake"]
    for name in names:
        assert [(row.id, row.v) for row in spark.read.format("delta").load(str(into / name)).collect()] == [(1, 2)]


def test_what_a_merge_would_have_to_read_decides_who_makes_it(spark: SparkSession, tmp_path: Path) -> None:
    def batch(first: int, **way: int) -> Path:
        return applied(spark, tmp_path, *(change("u", "t", n, v=f"{first}" * 9) for n in range(first, first + 100)), **way)

    for first in (0, 1_000):
        batch(first)
    into = batch(2_000)
    files = DeltaTable(str(into / "t")).get_add_actions(flatten=True)
    most = max(files["size_bytes"].to_pylist())
    assert files.num_rows == 3
    batch(1_000, target_bytes_in_driver=most)
    applied(spark, tmp_path, change("u", "t", 0, v=""), change("u", "t", 2_000, v=""), target_bytes_in_driver=most)
    batch(3_000, target_bytes_in_driver=1)
    assert merged_by(into / "t") == ["deltalake"] * 4 + ["spark", "deltalake"]
    applied(spark, tmp_path, event("t", "t", None), change("c", "t", 0, v="new"), target_bytes_in_driver=most)
    assert merged_by(into / "t")[-1] == "spark", "a truncate reads all, whatever its batch has"
    assert rows(into / "t") == [{"id": 0, "v": "new"}]


def test_a_target_that_changes_between_look_and_commit_is_looked_at_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = applied(spark, tmp_path, change("c", "t", 1, v=1))
    merge_into, attempts = DeltalakeTargets.merge_into, list[int]()

    def after_a_change(self: DeltalakeTargets, table: DeltaTable, *given: Any, **more: Any) -> bool:
        attempts.append(table.version())
        spark.sql(f"ALTER TABLE delta.`{into / 't'}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        return merge_into(self, table, *given, **more)

    monkeypatch.setattr(DeltalakeTargets, "merge_into", after_a_change)
    applied(spark, tmp_path, change("u", "t", 1, v=2))
    assert (len(attempts), merged_by(into / "t")) == (1, ["deltalake", "spark"])
    assert [row.v for row in spark.read.format("delta").load(str(into / "t")).collect()] == [2]


@pytest.mark.thorough
def test_a_compaction_by_spark_waits_for_a_merge_in_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could look whether its commit is there before the merge's is, and then put its own in that place."""
    for number in range(2):
        applied(spark, tmp_path, change("c", "t", number))
    into = applied(spark, tmp_path, change("c", "t", 2))
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(into / "t"))  # type: ignore[union-attr]
    merge_into, beside = DeltalakeTargets.merge_into, list[Thread]()

    def beside_a_compaction(self: DeltalakeTargets, *given: Any, **more: Any) -> bool:
        thread = Thread(target=lambda: spark.sql(f"OPTIMIZE delta.`{into / 't'}`"))
        beside.append(thread)
        thread.start()
        wait_until(lambda: log.snapshotLock().hasQueuedThreads(), "the compaction waits")
        done = merge_into(self, *given, **more)
        assert log.snapshotLock().hasQueuedThreads()
        return done

    monkeypatch.setattr(DeltalakeTargets, "merge_into", beside_a_compaction)
    applied(spark, tmp_path, change("u", "t", 1, v=1))
    beside[0].join()
    assert not log.snapshotLock().isLocked()
    operations = [one["operation"] for one in DeltaTable(str(into / "t")).history()]
    assert operations[:2] == ["OPTIMIZE", "MERGE"]
    monkeypatch.undo()
    applied(spark, tmp_path, change("c", "t", 7))
    assert [row["id"] for row in rows(into / "t")] == [0, 1, 2, 7]


def test_a_new_target_is_made_without_spark_where_nothing_is(spark: SparkSession, tmp_path: Path) -> None:
    into = applied(spark, tmp_path, change("c", "t", 1), change("c", "spaced", 1, **{"unit price": 1}))
    assert (made_by(into / "t", "CREATE"), made_by(into / "spaced", "CREATE")) == (["deltalake"], ["spark"])
    spark.range(1).write.parquet(str(into / "files"))
    (into / "file").write_text("")
    small = DriverTargets.of(spark, str(into), by_position=True, bytes_max=1)
    assert small is not None
    for name in ("files", "file"):
        assert (
            small.create(
                Target(TableId("public", name), name, (target_column("id", "bigint"),), ("id",)), TargetOwner(TOPIC, 0, "s")
            )
            is None
        )
    assert SparkTable.isDeltaTable(spark, str(into / "t"))
    conf: Any = spark.sparkContext._conf
    asked = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
    conf.set(asked, "false")
    try:
        applied(spark, tmp_path, change("c", "asked", 1))
    finally:
        conf._jconf.remove(asked)
    assert made_by(into / "asked", "CREATE") == ["spark"]


def test_small_files_are_put_together_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    events = [change("c", "t", n) for n in range(FILES_MIN + 4)]
    into = applied(spark, tmp_path, *events, max_events=1, compact_every=FILES_MIN)
    assert made_by(into / "t", "OPTIMIZE") == ["deltalake"]
    assert rows(into / "t") == [{"id": n} for n in sorted(range(FILES_MIN + 4), key=lambda n: repr({"id": n}))]
    small = DriverTargets.of(spark, str(into), by_position=True, bytes_max=1)
    assert small is not None
    assert small.compact("t") is None, "too much to be held here"


def test_what_moved_rows_had_is_read_without_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = applied(spark, tmp_path, change("c", "t", 1, v="large"))
    monkeypatch.setattr(SparkTargets, "_rows", None)
    moved = event("u", "t", {"id": 2}, {"id": 2, "v": "__debezium_unavailable_value"}, before={"id": 1})
    applied(spark, tmp_path, moved)
    assert rows(into / "t") == [{"id": 2, "v": "large"}]


def test_stores_other_than_this_machines_files_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    def small(into: str, bytes_max: int = 1) -> DriverTargets | None:
        return DriverTargets.of(spark, into, by_position=True, bytes_max=bytes_max)

    assert small(str(tmp_path)) is not None
    assert small(str(tmp_path), 0) is None
    assert small("s3://bucket/targets") is None
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    before = conf.get("fs.defaultFS")
    conf.set("fs.defaultFS", "s3a://bucket")
    try:
        assert small(str(tmp_path)) is None
    finally:
        conf.set("fs.defaultFS", before)


@pytest.mark.parametrize("value", [-1, True, 1.5, "1"])
@pytest.mark.parametrize("limit", ["events_in_driver", "target_bytes_in_driver"])
def test_a_bad_limit_is_told(tmp_path: Path, limit: Any, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"bad {limit}.*a whole number of 0 or more"):
        sync(str(tmp_path / "lake"), TOPIC, SyncOptions(into=tmp_path / "targets", **{limit: value}))
