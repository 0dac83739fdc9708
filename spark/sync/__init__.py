"""Change data into Delta tables by Spark."""
