"""Schemas of typed topics: fields, sources, evolution. Nothing here reads a store."""
