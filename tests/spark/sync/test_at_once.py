"""Merges of several targets side by side, by Spark."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from penstock import SyncOptions, sync
from penstock.cdc.sync.options import NO_STEPS, BatchReport, Moment
from penstock.cdc.target import decode_metadata
from tests.cdc.sync.crashes import Crash
from tests.cdc.sync.streams import TOPIC, event, rows, send
from tests.spark.sync.engines import BY_SPARK, IN_DRIVER, Way, in_each_way, merged_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PATIENCE_S = 120.0
TABLES = ("a", "b", "h")


class Together:
    """Lets each merge begin once all others of its batch are as far; that of table ``dies`` ends its driver then."""

    def __init__(self, tables: int = len(TABLES), dies: str = "") -> None:
        self._all, self._dies = Barrier(tables), dies

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        if (step, moment) == ("merge", "in"):
            self._all.wait(PATIENCE_S)
            if what == self._dies:
                raise Crash(what)

    def __reduce__(self) -> tuple[object, ...]:
        return _no_steps, ()


def _no_steps() -> object:
    return NO_STEPS


@pytest.mark.thorough
@in_each_way
def test_each_target_gets_its_own_rows_and_progress(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    lake, into, batches = str(tmp_path / "lake"), tmp_path / "targets", list[BatchReport]()
    for turn in range(2):
        send(
            lake,
            [event("u", table, {"id": n}, {"id": n, table: turn}, at=1 + turn) for n in range(3) for table in TABLES],
            queues=1,
        )
        run = sync(
            lake,
            TOPIC,
            SyncOptions(into=into, history=["h"], merges_at_once=len(TABLES), **way),
            spark=spark,
            steps=Together(),
            listener=batches.append,
        )
        assert run.await_termination()
        assert run.stopped == {}
    assert [batch.merged for batch in batches] == [dict.fromkeys(TABLES, 3)] * 2
    for table in TABLES:
        written = [decode_metadata(one.get("userMetadata")) for one in DeltaTable(str(into / table)).history()]
        assert {one.source.table for one in written if one is not None} == {table}
        assert [one.progress.commits for one in written if one is not None] == [2, 1, 0]
        assert [one.progress.offsets for one in written if one is not None] == [{0: 18}, {0: 9}, {}]
        found = rows(into / table, own=True)
        assert [(row["id"], row[table]) for row in found if row.get("__current", True)] == [(n, 1) for n in range(3)]
        assert len(found) == (6 if table == "h" else 3)


@pytest.mark.parametrize(
    "way", [IN_DRIVER, pytest.param(BY_SPARK, marks=pytest.mark.thorough)], ids=["in the driver", "merged by Spark"]
)
def test_a_driver_that_ends_in_one_merge_has_ended_the_other_which_is_not_made_again(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", table, {"id": 1}, {"id": 1}, at=1) for table in ("a", "b")])
    run = sync(lake, TOPIC, SyncOptions(into=into, merges_at_once=2, **way), spark=spark, steps=Together(2, dies="a"))
    with pytest.raises(Crash):
        run.await_termination()
    assert (rows(into / "a"), rows(into / "b")) == ([], [{"id": 1}])
    assert sync(lake, TOPIC, SyncOptions(into=into, **way), spark=spark).await_termination()
    assert (rows(into / "a"), rows(into / "b")) == ([{"id": 1}], [{"id": 1}])
    assert (len(merged_by(into / "a")), len(merged_by(into / "b"))) == (1, 1)
