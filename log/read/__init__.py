"""Readers: rows of a topic from its table and its log, merged in offset order.

No consumer group is known here.
"""
