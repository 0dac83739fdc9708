"""Tests of the sync by Spark."""
