"""Transactions: messages of several topics that become visible together, or never, as one record decides (docs/0014)."""
