"""Dead letters: writing them, and sending them back to their topics.

When a message is given up is decided in `schedule`.
"""
