"""Change data: what Debezium's envelopes say, and what they do to a table. Knows no Spark."""
