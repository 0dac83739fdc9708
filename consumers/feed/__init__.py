"""Fetching: rows of a topic for the queues of this process, from the live log, the cache, the backlog and the table.

What may run is in `schedule`.
"""
