"""Settings for Spark in tests, whose data is small: it is to spend its time on what is tested, not on making code for it fast."""

from __future__ import annotations

from penstock.spark.class_archive import FIRST_COMPILER

JVM = FIRST_COMPILER
"""Executors' options. A session's driver has them by itself."""
QUERIES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Plans stay as they are, but are run as they stand: to write Java for each, and compile it, takes a good fourth of the processor's time. The list of
a table's few files has one partition. The demo, the pages' and submitted jobs run as users' sessions do.
"""
