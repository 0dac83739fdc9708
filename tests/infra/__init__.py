"""Tests of infra."""
