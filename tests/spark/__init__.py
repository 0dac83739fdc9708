"""Tests of Spark: those in test_spark.py share one session."""
