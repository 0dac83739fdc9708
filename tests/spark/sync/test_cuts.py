"""Cuts of a sync by Spark, and what `penstock.spark.at_cut` reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable as SparkTable

import penstock
from penstock import CutTooOld, TableNotInCut
from penstock.spark import FramesAtCut, at_cut, sync
from tests.cdc.cuts.topics import TOPIC, rows, shop
from tests.spark.sync.engines import BY_SPARK, IN_DRIVER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NO_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def read(found: FramesAtCut, table: str) -> dict[int, int]:
    return {row.id: row.v for row in found[table].collect()}


def test_tables_at_cuts_that_spark_and_its_driver_have_made(spark: SparkSession, tmp_path: Path) -> None:
    into = tmp_path / "into"
    with shop(tmp_path) as source:
        for number, way in enumerate((BY_SPARK, IN_DRIVER, BY_SPARK)):
            source.send(("a", 1, number), ("a", number + 10, 0), ("b", 1, number))
            run = sync(spark, str(tmp_path / "lake"), TOPIC, into=into, cuts=True, **way)
            assert run.await_termination()
            assert run.status.cut is not None
            assert run.status.cut.number == number + 1
    for number in range(3):
        found = at_cut(spark, into, cut=number + 1)
        tens = dict.fromkeys(range(10, 11 + number), 0)
        assert {table: read(found, table) for table in found} == {"a": {1: number, **tens}, "b": {1: number}}
        assert {table: rows(penstock.at_cut(into, number + 1), table) for table in "ab"} == {
            table: read(found, table) for table in "ab"
        }
    found = at_cut(spark, into, views=True)
    assert (len(found), "a" in found) == (2, True)
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
