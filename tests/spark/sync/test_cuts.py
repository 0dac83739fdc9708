"""Cuts of a sync by Spark, and what `penstock.spark.at_cut` reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

import penstock
from penstock import CutTooOld, SyncOptions, TableNotInCut, sync
from penstock.spark import FramesAtCut, at_cut
from tests.cdc.cuts.topics import TOPIC, Change, rows, shop
from tests.spark.sync.engines import BY_SPARK, IN_DRIVER
from tests.thorough import thoroughly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


WAYS = thoroughly((BY_SPARK, IN_DRIVER, BY_SPARK), (BY_SPARK, IN_DRIVER))
LAST = len(WAYS) - 1


def read(found: FramesAtCut, table: str) -> dict[int, int]:
    return {row.id: row.v for row in found[table].collect()}


@pytest.mark.thorough
def test_tables_at_cuts_that_spark_and_its_driver_have_made(spark: SparkSession, tmp_path: Path) -> None:
    into = tmp_path / "into"
    asked = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"
    spark.sql(f"CREATE TABLE delta.`{into / 'm'}` (id BIGINT, v BIGINT) USING delta TBLPROPERTIES ({asked})")
    with shop(tmp_path) as source:
        for number, way in enumerate(WAYS):
            kept: list[Change] = [("m", key, None if key < number else key) for key in range(4) if not number or key < number]
            source.send(("a", 1, number), ("a", number + 10, 0), ("b", 1, number), *kept)
            run = sync(str(tmp_path / "lake"), TOPIC, SyncOptions(into=into, cuts=True, adopt=True, **way), spark=spark)
            assert run.await_termination()
            assert run.status.cut is not None
            assert run.status.cut.number == number + 1
    for number in range(len(WAYS)):
        found = at_cut(spark, into, cut=number + 1)
        tens = dict.fromkeys(range(10, 11 + number), 0)
        left = {key: key for key in range(number, 4)}
        by_spark = {table: read(found, table) for table in found}
        assert by_spark == {"a": {1: number, **tens}, "b": {1: number}, "m": left}
        assert {table: rows(penstock.at_cut(into, number + 1), table) for table in "abm"} == by_spark
    found = at_cut(spark, into, views=True)
    assert (len(found), "a" in found) == (3, True)
    assert repr(found).startswith(f"FramesAtCut({len(WAYS)}, postgres/penstock 0/")
    assert [tuple(row) for row in spark.sql("SELECT a.v, b.v FROM a JOIN b USING (id)").collect()] == [(LAST, LAST)]
    with pytest.raises(TableNotInCut):
        found["c"]

    table = DeltaTable(str(into / "a"))  # others see to its files
    table.optimize.z_order(["id"])
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert found.version("a") > found.cut.tables["a"].version  # the same rows, in other files
    assert read(found, "a") == {1: LAST, **dict.fromkeys(range(10, 11 + LAST), 0)}
    with pytest.raises(CutTooOld, match="no longer there") as error:
        at_cut(spark, into, cut=1)["a"]
    assert str(error.value.expected).startswith(f"cut {len(WAYS)} or later")
