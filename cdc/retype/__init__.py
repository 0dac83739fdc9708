"""New column types for older targets, by one commit each or not at all."""
