"""Appending to a topic's log: appends in flight, contention, and the entry that is written next."""
