"""Reads of a topic by ranges of offsets, shared out to tasks."""
