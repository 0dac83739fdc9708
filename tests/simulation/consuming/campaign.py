"""The long runs with consumers; `commands` has them for the command line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from penstock.log.errors import PenstockError
from tests.simulation.campaign import Run, map_runs, met, replay_command
from tests.simulation.consuming.mutants import MUTANTS
from tests.simulation.consuming.scenarios import SCENARIOS, build, small_work
from tests.simulation.consuming.world import Consuming
from tests.simulation.faults import Fault, ScriptedFaults, Where, possible
from tests.simulation.small import small_log

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in Fault),
    "restart", "deploy", "reset", "order: redrive", "ordered: release", "ordered: skip", "redriven", "take: from the dead",
    "take: of a queue that was given back", "take: suspects", "start: repeated", "start: alone in its process", "death alone: a strike",
    "heartbeat: fenced", "heartbeat: left", "blocked", "waits alone", "parked", "dead letter", "end: failed", "end: unnamed", "end: rejected",
    "end: cut", "end: too late", "pause", "suspend", "crash", "step_clock", "write landed after its caller was gone",
    "spill: left the cell", "spill: came back in part", "spill: merged", "spill: taken over",
    "the table was put back", "dead letter numbered anew", "the bucket was put back", "the group was reset",
    "order: alter", "left out by a filter", "left out, and behind a blocked message later",
    "left out, and read again by a new filter", "error: invalid_argument",
    *(f"outage: {name}" for name in ("store", "table", "dead letters", "log", "cell", "record", "heartbeats", "refused")),
)  # fmt: skip
"""What a sweep must have met at least once; else it proves less than it seems to."""
_SPARED = frozenset({"founder", "looker", "auditor"})
TEETH_STEPS = 120_000
"""A mutant that takes longer has come to a standstill, if the intact protocol does not."""


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
    """Each scenario at each of these seeds."""
    return map_runs(_sweep_one, [(scenario, seed) for seed in seeds for scenario in SCENARIOS], workers)


def _sweep_one(which: tuple[str, int]) -> Run:
    return play(*which)


@dataclass(frozen=True, slots=True)
class Teeth:
    """How a mutant fared, seed by seed."""

    runs: list[Run]

    @property
    def caught(self) -> list[Run]:
        return [run for run in self.runs if run.wrong]

    @property
    def first(self) -> int | None:
        """The how-manieth seed caught it."""
        return next((place for place, run in enumerate(self.runs, 1) if run.wrong), None)

    @property
    def per_500(self) -> float:
        """In how many of 500 seeds it is caught, to judge by those that were played."""
        return 500 * len(self.caught) / len(self.runs)


def teeth(mutant: str, seeds: Sequence[int], *, workers: int = 1, enough: int | None = None) -> Teeth:
    """Play a mutant until ``enough`` seeds have caught it, or all are played."""
    runs: list[Run] = []
    step = len(seeds) if enough is None else 4 * workers
    for at in range(0, len(seeds), step):
        runs += map_runs(partial(_teeth_one, mutant), list(seeds[at : at + step]), workers)
        if enough is not None and sum(bool(run.wrong) for run in runs) >= enough:
            break
    return Teeth(runs)


def _teeth_one(mutant: str, seed: int) -> Run:
    scenario = MUTANTS[mutant].scenario
    run = play(scenario, seed, mutant=mutant, max_steps=TEETH_STEPS)
    if run.wrong and run.wrong[0].startswith("LimitReached"):
        return replace(run, wrong=run.wrong if not play(scenario, seed, max_steps=TEETH_STEPS).wrong else ())
    return run


def never_happened(runs: Iterable[Run], must: Iterable[str] = MUST_HAPPEN) -> list[str]:
    """What a sweep of these runs should have met, and did not."""
    total = met(runs)
    return [what for what in must if not total[what]]


def table(counts: Counter[str]) -> str:
    """The counts as lines, what must happen and did not among them."""
    return "\n".join(f"{counts[what]:10,}  {what}" for what in sorted({*counts, *MUST_HAPPEN}))


def exhaustive(*, seed: int = 1, workers: int = 1, every: int = 1) -> list[Run]:
    """Every fault at every call of the store and of the table by a small workload, or each ``every``-th of those: one run each."""
    with small_log():
        world = small_work(seed)
        world.run()
    scripts = [
        (service, call.process, call.process_number, fault.name)
        for service, calls in (("table", world.table.calls), ("store", world.store.calls))
        for call in calls
        if call.process not in _SPARED
        for fault in Fault
        if possible(fault, call)
    ]
    return map_runs(partial(_exhaustive_one, seed), scripts[::every], workers)


def _exhaustive_one(seed: int, script: tuple[str, str, int, str]) -> Run:
    return single_fault(seed, *script)[0]


def single_fault(seed: int, service: str, process: str, number: int, fault: str) -> tuple[Run, Consuming]:
    """The small workload with one fault, at one call of one process to the store or the table."""

    def make() -> Consuming:
        plan = ScriptedFaults([(Where(process=process, occurrence=number), Fault[fault])])
        return small_work(seed, table=plan) if service == "table" else small_work(seed, store=plan)

    again = replay_command(seed, world="consumers", service=service, process=process, call=number, fault=fault)
    return judged(f"{fault} at call {number} of {process} to the {service}", seed, again, make)
