"""Tests of a sync's targets: their names, columns and types, refusals, and tables that stand still."""
