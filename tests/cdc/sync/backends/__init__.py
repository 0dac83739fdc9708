"""Tests of what carries out a sync's batches."""
