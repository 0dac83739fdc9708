"""Schedules: the messages of a queue that may run next, and what its cell must say before.

Decisions are pure; the processors in `queues` read, write and run.
"""
