"""Transactions: messages of several topics that become visible together, or never, as one record says (docs/0014)."""
