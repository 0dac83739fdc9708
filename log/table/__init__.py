"""The topic's Delta table: published from the log, compacted, trimmed and verified."""
