"""A consumer group's record as a value: settings, positions, orders and retry schedules.

Reading and writing it is in `registry`.
"""
