"""Timed messages that wait: in memory, in runs on the store, and recalls for which the cell has no room."""
