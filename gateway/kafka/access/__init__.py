"""Kafka's clients: their proofs of identity by SASL, and what they may do."""
