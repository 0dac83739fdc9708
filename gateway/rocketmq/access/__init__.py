"""Clients' signatures, and the rights that requests need."""
