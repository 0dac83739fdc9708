"""Messages and the columns they become: types, checks, and the way to a queue.

Nothing here reads or writes an object.
"""
