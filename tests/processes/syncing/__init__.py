"""A producer of change events and the driver of a sync as real processes, killed at random."""
