"""Ordered writes: rows of a DataFrame into a topic, all of a batch visible or none."""
