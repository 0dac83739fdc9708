"""The long runs with consumers: ``python -m tests.simulation.campaign … --world consumers``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial

from penstock.log.errors import PenstockError
from tests.simulation.campaign import Run, map_runs, replay_command
from tests.simulation.consuming.mutants import MUTANTS
from tests.simulation.consuming.scenarios import build, of_seed
from tests.simulation.consuming.world import Consuming
from tests.simulation.faults import Fault
from tests.simulation.small import small_log

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in Fault),
    "restart", "deploy", "reset", "order: redrive", "ordered: release", "ordered: skip", "redriven", "take: from the dead",
    "take: of a queue that was given back", "take: suspects", "start: repeated", "start: alone in its process", "death alone: a strike",
    "heartbeat: fenced", "heartbeat: left", "blocked", "waits alone", "parked", "dead letter", "end: failed", "end: unnamed", "end: rejected",
    "end: cut", "end: too late", "pause", "suspend", "crash", "step_clock", "write landed after its caller was gone", "write landed twice",
)  # fmt: skip
"""What a sweep must have met at least once; else it proves less than it seems to."""
TEETH_STEPS = 200_000


def play(
    scenario: str, seed: int | str, *, mutant: str | None = None, rate: float | None = None, max_steps: int | None = None
) -> Run:
    """Play a scenario and judge it; whatever stops the run is wrong too."""
    again = replay_command(seed, scenario=scenario, mutant=mutant, world="consumers")
    return judged(scenario, seed, again, partial(build, scenario, seed, rate=rate), mutant=mutant, max_steps=max_steps)[0]


def judged(
    scenario: str,
    seed: int | str,
    again: str,
    make: Callable[[], Consuming],
    *,
    mutant: str | None = None,
    max_steps: int | None = None,
) -> tuple[Run, Consuming]:
    """Play the world that ``make`` makes, without the mutant's guard, and judge it."""
    started = time.perf_counter()
    with small_log(), MUTANTS[mutant].patch() if mutant else nullcontext():
        world = make()
        world.kernel.loop.max_steps = max_steps or world.kernel.loop.max_steps
        try:
            wrong = world.run()
        except (AssertionError, PenstockError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            wrong = [f"{type(error).__name__}: {error}"]
    return Run(scenario, seed, again, tuple(wrong), world.counts, world.kernel.digest(), time.perf_counter() - started), world


def sweep(seeds: Iterable[int], *, workers: int = 1) -> list[Run]:
    """Each seed in the scenario that it stands for."""
    return map_runs(_sweep_one, list(seeds), workers)


def _sweep_one(seed: int) -> Run:
    return play(of_seed(seed), seed)


def teeth(mutant: str, seeds: Iterable[int], *, workers: int = 1) -> list[Run]:
    """The runs in which a mutant is caught."""
    runs = map_runs(partial(_teeth_one, mutant), list(seeds), workers)
    return [run for run in runs if run.wrong]


def _teeth_one(mutant: str, seed: int) -> Run:
    return play(MUTANTS[mutant].scenario, seed, mutant=mutant, max_steps=TEETH_STEPS)
