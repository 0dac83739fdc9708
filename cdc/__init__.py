"""Change data: Debezium's envelopes, and their effect on a table. Without Spark."""
