"""Dead letters: writing them, and sending them back to their topics."""
