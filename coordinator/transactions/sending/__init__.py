"""A transaction as its sender has it: half messages, settled messages, and the receipt of the commit."""
