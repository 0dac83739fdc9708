"""The cell of one topic's timers: its state, its bytes, and the pure decisions on it.

No message is read or sent here.
"""
