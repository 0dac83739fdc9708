"""Merges of several targets side by side, by Spark."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from penstock.cdc.sync.options import NO_STEPS, Batch, Moment
from penstock.cdc.targets import decode_metadata
from penstock.spark import sync
from tests.cdc.sync.streams import TOPIC, event, rows, send
from tests.spark.sync.engines import Way, in_each_way

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PATIENCE_S = 120.0
TABLES = ("a", "b", "h")


class Together:
    """Lets each merge begin once all others of its batch are as far."""

    def __init__(self) -> None:
        self._all = Barrier(len(TABLES))

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        if (step, moment) == ("merge", "in"):
            self._all.wait(PATIENCE_S)

    def __reduce__(self) -> tuple[object, ...]:
        return _no_steps, ()


def _no_steps() -> object:
    return NO_STEPS


@in_each_way
def test_each_target_gets_its_own_rows_and_progress(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    lake, into, batches = str(tmp_path / "lake"), tmp_path / "targets", list[Batch]()
    for turn in range(2):
        send(
            lake,
            [event("u", table, {"id": n}, {"id": n, table: turn}, at=1 + turn) for n in range(3) for table in TABLES],
            queues=1,
        )
        run = sync(
            spark,
            lake,
            TOPIC,
            into=into,
            history=["h"],
            merges_at_once=len(TABLES),
            steps=Together(),
            listener=batches.append,
            **way,
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
