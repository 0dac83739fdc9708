"""The examples run in the session of the tests; they check themselves."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.thorough
@pytest.mark.spark
def test_message_groups_are_processed_in_order(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "spark_in_order.py"))["main"](str(tmp_path / "lake"))
    assert "every one in order, none overdrawn" in capsys.readouterr().out
    assert spark.range(1).count() == 1, "it leaves the session to others"


@pytest.mark.thorough
@pytest.mark.spark
def test_spark_sql_reads_a_typed_topic_that_evolved(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(ROOT / "examples" / "typed_topic.py"))["main"](str(tmp_path / "lake"), with_spark=True)
    assert "the same for the worker, Polars, DuckDB by Delta, DuckDB by Iceberg, Spark SQL" in capsys.readouterr().out
    assert spark.range(1).count() == 1, "it leaves the session to others"
