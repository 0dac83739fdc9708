"""Transactions with one guard removed, from the tests' side: runs without faults do not need it, the sweep does."""

from __future__ import annotations

from tests.simulation.sweeping import Mutant

MUTANTS: dict[str, Mutant] = {}
