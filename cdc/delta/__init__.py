"""Targets as Delta tables without Spark: where they are, what a merge needs, how fresh they are."""
