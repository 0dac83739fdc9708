"""Processes that consume: leases, heartbeats, and who is alive.

Which queues they own is in `rebalance`.
"""
