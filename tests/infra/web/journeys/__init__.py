"""Journeys through the web console in a real browser."""
