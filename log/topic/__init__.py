"""Topics, names of producers, and timer logs."""
