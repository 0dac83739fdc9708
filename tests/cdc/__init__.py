"""Tests of change data."""
