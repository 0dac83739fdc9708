"""Targets as Delta tables without Spark."""
