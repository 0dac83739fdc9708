"""A job that brings Penstock along: reads the topic in the lake of the first argument, and says what it found and where."""

import json
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock.spark
from penstock.log.errors import MissingDependency
from pyspark_penstock import DefaultSource


def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [rows], "penstock": [str(sys.modules["penstock"].__file__)]})


spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(DefaultSource)
reader = spark.read.format("penstock").option("lake", sys.argv[1])
try:
    reader.load("orders")
    without = "no error"
except PySparkException as error:
    without = [line for line in str(error).splitlines() if "Error" in line][-1]
try:
    rows = spark.range(3).selectExpr("id", "id AS note")
    penstock.spark.write_ordered(rows, sys.argv[1], "orders", message_group="id", order_by="id")
    unwritten = "no error"
except MissingDependency as error:
    unwritten = str(error)
penstock.spark.register(spark)
found = [row.asDict() for row in reader.load("orders").mapInArrow(count, "rows bigint, penstock string").collect()]
print("FOUND", json.dumps({"without": without, "unwritten": unwritten, "tasks": found}))
spark.stop()
