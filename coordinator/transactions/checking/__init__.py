"""Asks checkers about undecided transactions."""
