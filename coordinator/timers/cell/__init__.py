"""The cell of one topic's timers, and the pure decisions on it."""
