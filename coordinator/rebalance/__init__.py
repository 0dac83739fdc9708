"""Rebalancing: queues shared among the members of a group, and roles among processes."""
