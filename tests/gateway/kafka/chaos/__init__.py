"""Kafka's gateways and their store, killed and stopped beneath idempotent producers and a consumer group."""
