"""Cuts: the versions of a sync's targets that together equal the source at one place of its log. How they are made: docs/0020-cuts.md."""
