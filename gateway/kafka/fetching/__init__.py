"""What clients fetch: batches that are at hand, else rows that are read."""
