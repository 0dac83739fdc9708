"""By this module Spark finds the data source ``penstock``: it looks for modules whose names begin with ``pyspark_``."""

from penstock.spark.source.datasource import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
