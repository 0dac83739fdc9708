"""Clients and gateways: settings, liveness, and routes."""
