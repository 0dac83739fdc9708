"""Change events as connectors write them: the envelope, the table and database they are of, and exact values.

Their effect on a table is elsewhere.
"""
