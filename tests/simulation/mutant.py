"""What is said of a guard that can be removed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.patches import Patch


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One guard less, by replacing a function from the tests' side."""

    guard: str
    """What it lacks."""
    patch: Patch
    rule: str = ""
    """Of the world's judge, that needs the guard first of all."""
    scenario: str
    seeds: tuple[int, ...] = ()
    """Of the scenario, that caught it when this was written."""
    calm: bool = True
    """Whether a run without faults goes right without it. (The judge sees some guards work, faults or not.)"""
    unmet: bool = False
    """Its moment came in none of a dozen seeds or more. Only its stand-in notices that it is missing."""
    steps: int | None = None
    """Without it a run that takes longer has come to a standstill, if the intact one does not; None: as the world's campaign has it."""
    world: str = ""
    """In which it is played; the registry says it."""
