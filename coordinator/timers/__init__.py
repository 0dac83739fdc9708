"""Timed messages: those that wait until their delivery time, and the players that deliver them (docs/0013)."""
