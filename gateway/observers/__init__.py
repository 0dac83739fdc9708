"""Metrics, spans and the audit log of calls, whatever the protocol."""
