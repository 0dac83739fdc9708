"""The source: a topic as a streaming and a batch DataFrame, rows in queue order."""
