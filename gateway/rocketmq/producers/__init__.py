"""Sending: messages of every type, the ends of transactions, and recalls."""
