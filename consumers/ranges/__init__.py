"""Reads of a topic by ranges of offsets, for engines that share a read out to tasks."""
