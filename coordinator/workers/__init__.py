"""Processes that consume: leases and heartbeats."""
