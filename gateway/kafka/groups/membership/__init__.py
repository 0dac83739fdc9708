"""What becomes of the members of one group. Pure."""
