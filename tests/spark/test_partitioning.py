from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.spark.partitioning import hash_of, hash_partitioned, in_partitions, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_each_partition_has_a_value_whose_hash_names_it() -> None:
    for partitions in (1, 2, 7, 64, 500):
        assert [hash_of(value) % partitions for value in values(partitions)] == list(range(partitions))


@pytest.mark.spark
def test_the_hash_is_spark_s(spark: SparkSession) -> None:
    some = [0, 1, -1, 42, 2**31 - 1, -(2**31)]
    expected = [
        row[0] for row in spark.sql(f"SELECT hash(x) FROM VALUES {', '.join(f'({one})' for one in some)} AS t(x)").collect()
    ]
    assert [hash_of(one) for one in some] == expected


@pytest.mark.spark
def test_rows_lie_in_the_partition_that_is_named(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    rows = spark.range(60).select((F.col("id") % 5).cast("int").alias("number"))

    def found(frame: DataFrame) -> list[tuple[int, int]]:
        return sorted((row[0], row[1]) for row in frame.select("number", F.spark_partition_id()).distinct().collect())

    for place in (in_partitions, hash_partitioned):
        assert found(place(rows, 5, F.col("number"))) == [(number, number) for number in range(5)], place
