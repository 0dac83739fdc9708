"""Tests of the sync, most by the engine without Spark: it decides the same, and starts at once."""
