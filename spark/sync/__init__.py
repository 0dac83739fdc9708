"""A sync by Spark: tasks fold, and Delta's JARs write. Its loop is in `cdc/sync`."""
