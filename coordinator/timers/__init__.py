"""Timed messages: what waits until its delivery time, and who lets it go (docs/0013)."""
