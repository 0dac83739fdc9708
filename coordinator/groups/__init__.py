"""A consumer group's record as a value. `registry` reads and writes it."""
