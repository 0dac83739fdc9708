"""A look at a gateway from outside, as a client has it."""
