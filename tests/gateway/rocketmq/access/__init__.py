"""Tests of who may do what at a gateway."""
