"""A sync of change events into Delta tables: the loop of its driver, its lease and record, and what a batch does, over a backend.

Targets are written by deltalake here; Spark brings a backend of its own.
"""
