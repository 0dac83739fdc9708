"""Schemas of typed topics: their fields, what they can be made from, and how they may change. Pure values; nothing here reads a store."""
