"""Reads of a topic by ranges of offsets, for engines that share a read out to tasks: what is there, how much a batch takes, which task
reads it, and the group that shows the progress.

Members, leases and acknowledgements of messages are elsewhere.
"""
