"""Clients and gateways: settings, liveness, and which gateway serves what."""
