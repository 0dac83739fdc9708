"""Tests of reads by ranges of offsets."""
