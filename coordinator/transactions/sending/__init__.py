"""A transaction as its sender has it."""
