"""Cuts: versions of a sync's targets that together equal the source at one place of its log (docs/0020-cuts.md)."""
