"""Kafka's protocol: the table of APIs, frames, messages, and errors."""
