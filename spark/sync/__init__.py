"""A sync by Spark: its tasks fold, and Delta's JARs write the targets. The loop, which works without Spark, is in `cdc/sync`."""
