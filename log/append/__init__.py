"""Appending to a topic's log."""
