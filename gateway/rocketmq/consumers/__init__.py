"""The consumers' side: receives, acknowledgements, renewals, dead letters and offsets."""
