"""Transactions: messages of several topics that become visible together, or never (docs/0014)."""
