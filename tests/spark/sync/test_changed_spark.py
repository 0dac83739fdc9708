"""What a target does not take, and times that others read, by Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.exceptions import ConcurrentAppendException, DeltaConcurrentModificationException

from penstock import SyncOptions, sync
from penstock.cdc.delta.compaction import TargetCompactionResult
from penstock.cdc.sync.run import SyncRun
from penstock.spark.sync.tables import SparkTargets, conflicts
from tests.cdc.sync.forgetting import forget_commits
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send
from tests.spark.sync.engines import BY_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def row(number: int, table: str, **more: object) -> Row:
    return event("c", table, {"id": number}, {"id": number, **more})


def reasons(run: SyncRun) -> dict[str, tuple[int, str]]:
    """By table that stands still, at which offset and why."""
    assert not any("\n" in stop.reason for stops in run.stopped.values() for stop in stops)
    return {table.removeprefix("public."): (stop.offset, stop.reason) for table, (stop,) in run.stopped.items()}


@pytest.mark.thorough
def test_what_one_target_does_not_take_stops_its_table_only(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"

    def run(*events: Row) -> dict[str, tuple[int, str]]:
        send(lake, events, queues=1)
        one = sync(lake, TOPIC, SyncOptions(into=into), spark=spark)
        assert one.await_termination()
        return reasons(one)

    spark.range(1).write.parquet(str(into / "foreign"))
    first = [row(1, "spaced", **{"unit price": 1}), row(1, "foreign"), row(1, "checked", n=1), row(1, "later"), row(1, "fine")]
    found = run(*first)
    assert found.keys() == {"foreign"}
    assert rows(into / "spaced") == [{"id": 1, "unit price": 1}]
    assert found["foreign"][0] == 1
    assert "is not a Delta table" in found["foreign"][1]

    spark.sql(f"ALTER TABLE delta.`{into / 'checked'}` ADD CONSTRAINT positive CHECK (n > 0)")
    for _ in range(2):
        found = run(row(2, "later"), row(3, "later", **{"unit price": 1}), row(2, "checked", n=-1), row(2, "fine"))
        assert found.keys() == {"foreign", "checked"}
        assert "CHECK constraint positive (n > 0) violated" in found["checked"][1]
        assert rows(into / "later") == [{"id": 1, "unit price": None}, {"id": 2, "unit price": None}, {"id": 3, "unit price": 1}]
        assert rows(into / "checked") == [{"id": 1, "n": 1}]
        assert rows(into / "fine") == [{"id": 1}, {"id": 2}]


def test_a_target_made_without_history_gets_none(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [row(0, "t")], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into), spark=spark).await_termination()
    send(lake, [row(1, "t")], queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into, history=True), spark=spark)
    assert run.await_termination()
    assert reasons(run)["t"][0] == 1
    assert "the target was made without history" in reasons(run)["t"][1]
    assert rows(into / "t") == [{"id": 0}]


def test_times_of_all_years_are_what_others_read(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    times = ["0001-01-01T00:00:00Z", "1500-03-01T00:00:00.123456Z", "2300-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]
    send(lake, [row(number, "t", at=time) for number, time in enumerate(times)])
    types = {"t": {"at": "timestamp"}}
    assert sync(lake, TOPIC, SyncOptions(into=into, columns=types), spark=spark).await_termination()
    wanted = [{"id": number, "at": datetime.fromisoformat(time)} for number, time in enumerate(times)]
    assert rows(into / "t") == wanted
    send(lake, [row(4, "t", at="2020-01-01T00:00:00Z")])
    assert sync(lake, TOPIC, SyncOptions(into=into, columns=types)).await_termination()  # rewrites the file
    assert rows(into / "t") == [*wanted, {"id": 4, "at": datetime(2020, 1, 1, tzinfo=UTC)}]
    assert spark.read.format("delta").load(str(into / "t")).where("at >= '2300-01-01'").count() == 2


def test_a_compaction_leaves_times_as_others_read_them(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    times = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]
    for number, time in enumerate(times):
        send(lake, [row(number, "t", at=time)])
        assert sync(lake, TOPIC, SyncOptions(into=into, columns={"t": {"at": "timestamp"}}), spark=spark).await_termination()
    done = SparkTargets(spark.newSession(), str(into), by_position=True, driver_targets=None).compact("t")
    assert done == TargetCompactionResult(2, 1)
    assert rows(into / "t") == [{"id": number, "at": datetime.fromisoformat(time)} for number, time in enumerate(times)]


def test_a_quiet_target_whose_log_was_cleaned_up_is_gone_on_with(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [row(1, "t")])
    assert sync(lake, TOPIC, SyncOptions(into=into), spark=spark).await_termination()
    forget_commits(into / "t")
    send(lake, [row(2, "t")])
    run = sync(lake, TOPIC, SyncOptions(into=into), spark=spark)
    assert run.await_termination()
    assert run.stopped == {}
    assert rows(into / "t") == [{"id": 1}, {"id": 2}]


def test_all_errors_of_lost_commits_are_known() -> None:
    lost = conflicts()
    assert DeltaConcurrentModificationException in lost
    assert not issubclass(ConcurrentAppendException, DeltaConcurrentModificationException)
    assert issubclass(ConcurrentAppendException, lost)


@pytest.mark.thorough
def test_small_files_are_put_together_beside_a_sync(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [row(number, "a") for number in range(4)], queues=1)
    one = sync(lake, TOPIC, SyncOptions(into=into, max_events=1, compact_every=2, **BY_SPARK), spark=spark)
    assert one.await_termination()
    assert one.stopped == {}
    assert rows(into / "a") == [{"id": number} for number in range(4)]
    done = spark.sql(f"DESCRIBE HISTORY delta.`{into / 'a'}`").toArrow().column("operation").to_pylist()
    assert "OPTIMIZE" in done
