"""Rebalancing: queues shared among the members of a group, and roles among processes.

The content of a queue's cell is in `queues`.
"""
