"""Stored data of every format, which every later version must read."""
