"""``format("penstock")`` as a sink in every version of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.coordinator.lakes import lakes
from penstock.log.errors import MissingDependency
from penstock.spark import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[penstock.Lake]:
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=4)
        yield lake
    lakes.close()


@pytest.mark.thorough
@pytest.mark.spark
def test_a_batch(spark: SparkSession, lake: penstock.Lake) -> None:
    from pyspark.sql import functions as F

    rows = spark.range(60).select(F.lit("g").alias("message_group"), F.col("id").cast("string").alias("body"))
    rows.write.format("penstock").mode("append").option("lake", lake.url).save("orders")
    assert sorted(int(message.body) for message in lake.reader("orders").messages()) == list(range(60))


def test_a_stream_is_refused_by_a_spark_that_would_hand_rows_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.types import StructType

    from penstock.spark.source.datasource import PenstockDataSource

    monkeypatch.setattr(versions, "_running", lambda: "4.0.5")
    with pytest.raises(
        MissingDependency, match=r"writeStream.*expected: pyspark 4.1 or newer; observed: pyspark 4.0.5.*ordered_writer"
    ):
        PenstockDataSource({"lake": "lake"}).streamWriter(StructType([]), overwrite=False)
