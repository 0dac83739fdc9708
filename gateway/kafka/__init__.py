"""Kafka's protocol, for Kafka's own clients of any language. It needs ``penstock[kafka]``."""
