"""Receives, acknowledgements, renewals, dead letters and offsets."""
