"""Schedules: the messages of a queue that may run next, and what its cell must hold before, without I/O."""
