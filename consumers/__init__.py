"""Consumers: push, simple, pull and broadcast, with retries, dead letters and filters."""
