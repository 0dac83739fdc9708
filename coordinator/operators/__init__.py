"""Operators' view of consumer groups, and their orders."""
