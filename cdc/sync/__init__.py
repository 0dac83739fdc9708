"""The sync of change events into Delta tables: its driver's loop, lease and record, over a backend.

Targets are written by deltalake here, and by Spark in `spark/sync`.
"""
