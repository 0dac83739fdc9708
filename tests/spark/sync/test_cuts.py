"""Cuts of a sync by Spark, and what `penstock.spark.at_cut` reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable as SparkTable

import penstock
from penstock import CutTooOld, TableNotInCut
from penstock.spark import FramesAtCut, at_cut, sync
from tests.cdc.cuts.topics import TOPIC, Change, rows, shop
from tests.spark.sync.engines import BY_SPARK, IN_DRIVER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NO_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def read(found: FramesAtCut, table: str) -> dict[int, int]:
    return {row.id: row.v for row in found[table].collect()}


def test_tables_at_cuts_that_spark_and_its_driver_have_made(spark: SparkSession, tmp_path: Path) -> None:
    into = tmp_path / "into"
    asked = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"
    spark.sql(f"CREATE TABLE delta.`{into / 'm'}` (id BIGINT, v BIGINT) USING delta TBLPROPERTIES ({asked})")
    with shop(tmp_path) as source:
        for number, way in enumerate((BY_SPARK, IN_DRIVER, BY_SPARK)):
            kept: list[Change] = [("m", key, None if key < number else key) for key in range(4) if not number or key < number]
            source.send(("a", 1, number), ("a", number + 10, 0), ("b", 1, number), *kept)
            run = sync(spark, str(tmp_path / "lake"), TOPIC, into=into, cuts=True, adopt=True, **way)
            assert run.await_termination()
            assert run.status.cut is not None
            assert run.status.cut.number == number + 1
    for number in range(3):
        found = at_cut(spark, into, cut=number + 1)
        tens = dict.fromkeys(range(10, 11 + number), 0)
        left = {key: key for key in range(number, 4)}
        assert {table: read(found, table) for table in found} == {"a": {1: number, **tens}, "b": {1: number}, "m": left}
        assert {table: rows(penstock.at_cut(into, number + 1), table) for table in "abm"} == {
            table: read(found, table) for table in "abm"
        }
    found = at_cut(spark, into, views=True)
    assert (len(found), "a" in found) == (3, True)
    assert repr(found).startswith("FramesAtCut(3, postgres/penstock 0/")
    assert [tuple(row) for row in spark.sql("SELECT a.v, b.v FROM a JOIN b USING (id)").collect()] == [(2, 2)]
    with pytest.raises(TableNotInCut):
        found["c"]

    table = SparkTable.forPath(spark, str(into / "a"))
    table.optimize().executeZOrderBy("id")
    spark.conf.set(NO_CHECK, "false")
    try:
        table.vacuum(0)
    finally:
        spark.conf.unset(NO_CHECK)
    assert found.version("a") > found.cut.tables["a"].version  # the same rows, in other files
    assert read(found, "a") == {1: 2, 10: 0, 11: 0, 12: 0}
    with pytest.raises(CutTooOld, match="no longer there") as error:
        at_cut(spark, into, cut=1)["a"]
    assert str(error.value.expected).startswith("cut 3 or later")
