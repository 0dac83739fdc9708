"""What operators see and order of consumer groups.

Owners carry the orders out, in `queues`.
"""
