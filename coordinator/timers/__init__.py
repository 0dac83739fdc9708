"""Timed messages, which wait until their delivery time, and their players (docs/0013)."""
