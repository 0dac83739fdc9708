"""Fetching rows of a topic for the queues of this process."""
