"""Change data sync: a topic of change events into Delta tables, exactly once."""
