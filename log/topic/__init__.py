"""Topics: their settings, opening and making them, names of producers, and timer logs."""
