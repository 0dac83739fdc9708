"""The surroundings of protocol code."""
