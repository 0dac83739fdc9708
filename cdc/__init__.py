"""Change data: the content of Debezium's envelopes, and its effect on a table. Knows no Spark."""
