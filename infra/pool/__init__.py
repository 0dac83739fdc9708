"""A pool: one command run by several worker processes, which a parent starts, watches, replaces and ends."""
