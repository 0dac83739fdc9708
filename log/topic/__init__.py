"""Topics: their settings, opening and making them, names of producers, and timer logs.

Rows are sent and read elsewhere.
"""
