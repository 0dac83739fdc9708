"""What is said of a guard that can be removed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.patches import Patch


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One guard less."""

    guard: str
    """What it lacks."""
    rule: str
    """Of `judge`, that needs the guard first of all."""
    patch: Patch
    scenario: str
    seeds: tuple[int, ...] = ()
    """Of the scenario, that caught it when this was written."""
    calm: bool = True
    """Whether a run without faults goes right without it. (The judge sees some guards work, faults or not.)"""
