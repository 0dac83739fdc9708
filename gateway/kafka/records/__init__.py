"""Kafka's record batches to Arrow columns and back. Functions of values: nothing here reads or waits."""
