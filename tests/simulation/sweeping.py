"""The long runs of a world, from Python: sweeps, runs without one guard, and single faults. `campaign` has them for the command line."""

from __future__ import annotations

import gc
import importlib
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Protocol

from penstock.log.errors import PenstockError
from tests.simulation.faults import Call, Fault, possible
from tests.simulation.kernel import Kernel
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import mutants_of
from tests.simulation.singles import Asked, OneFault, Single, Story
from tests.simulation.small import small_log
from tests.thorough import THOROUGH

_STANDSTILL = "LimitReached"
WORLDS = (
    "log",
    "leases",
    "consumers",
    "receiving",
    "repeating",
    "letters",
    "gateways",
    "classic",
    "timers",
    "transactions",
    "tables",
)
"""Each is a package whose module ``campaign`` has a ``CAMPAIGN``."""


@dataclass(frozen=True, slots=True)
class Run:
    """One seed's run, judged."""

    scenario: str
    seed: int | str
    again: str
    """The command that plays it again."""
    wrong: tuple[str, ...]
    counts: Counter[str]
    digest: str
    seconds: float

    def report(self) -> str:
        """What is wrong with it, and how to see it again."""
        lines = [line[:600] for line in self.wrong[:5]]
        return "\n    ".join([f"WRONG {self.scenario}, seed {self.seed}: again with `{self.again}`", *lines])


class Played(Protocol):
    """One run. ``run`` plays it, and returns what is wrong."""

    kernel: Kernel

    @property
    def counts(self) -> Counter[str]:
        """How often each thing happened."""

    def run(self) -> list[str]: ...


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What there is to play of a world."""

    world: str
    scenarios: Mapping[str, Callable[..., Played]]
    """Each makes the world of a seed; with ``rate`` 0 without faults."""
    swept: Sequence[str]
    """The scenarios that a sweep plays at each of its seeds."""
    must_happen: Sequence[str] = ()
    """What a sweep must have met at least once; else it proves less than it seems to."""
    teeth_steps: int | None = None
    """Of mutants that do not say it: a run that takes longer has come to a standstill, if the intact one does not; None: there is no limit."""
    calm_seed: int = 1
    """Of the scenario ``calm``, which no mutant but the few that say so goes wrong in."""
    is_small: bool = True
    """Whether the log's constants are small, as in `small_log`."""
    stories: Mapping[str, Story] = field(default_factory=dict)
    """For single faults."""
    step_of: Callable[[str, Call], str] = lambda service, call: call.verb
    """What a request to a service is for."""
    services: Sequence[str] = ()
    """Whose calls single faults befall."""
    spared: frozenset[str] = frozenset()
    """Processes without whose calls nothing would be there."""

    @property
    def mutants(self) -> dict[str, Mutant]:
        return mutants_of(self.world)

    def play(
        self, scenario: str, seed: int | str, *, mutant: str | None = None, rate: float | None = None, max_steps: int | None = None
    ) -> Run:
        """Play a scenario and judge it; whatever stops the run is wrong too."""
        again = replay_command(seed, scenario=scenario, mutant=mutant, world=self.world)
        made = partial(self.scenarios[scenario], seed) if rate is None else partial(self.scenarios[scenario], seed, rate=rate)
        return self.judged(scenario, seed, again, made, mutant=mutant, max_steps=max_steps)[0]

    def judged(
        self,
        scenario: str,
        seed: int | str,
        again: str,
        make: Callable[[], Played],
        *,
        mutant: str | None = None,
        max_steps: int | None = None,
    ) -> tuple[Run, Played]:
        """Play the world that ``make`` makes, without the mutant's guard, and judge it."""
        started = time.perf_counter()
        with small_log() if self.is_small else nullcontext(), self.mutants[mutant].patch() if mutant else nullcontext():
            world = make()
            world.kernel.loop.max_steps = max_steps or world.kernel.loop.max_steps
            try:
                wrong = world.run()
            except (AssertionError, PenstockError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                wrong = [f"{type(error).__name__}: {error}"]
        seconds = time.perf_counter() - started
        return Run(scenario, seed, again, tuple(wrong), world.counts, world.kernel.digest(), seconds), world

    def sweep(self, seeds: Iterable[int], *, workers: int = 1) -> list[Run]:
        """Each scenario at each of these seeds."""
        return map_runs(partial(_sweep_one, self.world), [(scenario, seed) for seed in seeds for scenario in self.swept], workers)

    def teeth(self, mutant: str, seeds: Sequence[int], *, workers: int = 1, enough: int | None = None) -> list[Run]:
        """Play a mutant until ``enough`` seeds have caught it, or all are played."""
        runs: list[Run] = []
        step = len(seeds) if enough is None else workers
        for at in range(0, len(seeds), step):
            runs += map_runs(partial(_teeth_one, self.world, mutant), list(seeds[at : at + step]), workers)
            if enough is not None and sum(bool(run.wrong) for run in runs) >= enough:
                break
        return runs

    def without(self, mutant: str, seed: int) -> Run:
        """The mutant's scenario at a seed, without its guard."""
        one = self.mutants[mutant]
        return self.play(one.scenario, seed, mutant=mutant, max_steps=one.steps or self.teeth_steps)

    def intact(self, mutant: str, seed: int) -> Run:
        """The same with every guard in place."""
        one = self.mutants[mutant]
        return _intact(self.world, one.scenario, seed, one.steps or self.teeth_steps)

    def check_noticed(self, mutant: str, *, others: int) -> None:
        """One of the mutant's seeds, or of so many ``others``, must go wrong without its guard, and go right with it.

        Which seeds catch a mutant changes with every change of pace. That the run goes right is looked at in thorough runs, and where the
        mutant took too many steps.
        """
        for seed in dict.fromkeys((*self.mutants[mutant].seeds, *range(others))):
            wrong = self.without(mutant, seed).wrong
            if not wrong:
                continue
            if not THOROUGH and not wrong[0].startswith(_STANDSTILL):
                return
            intact = self.intact(mutant, seed)
            if not intact.wrong:
                return
            assert intact.wrong[0].startswith(_STANDSTILL), f"it goes wrong with every guard in place: {intact.report()}"
        raise AssertionError(f"it goes unnoticed that {self.mutants[mutant].guard}")

    def check_calm(self, mutant: str) -> None:
        """A run without faults must not need the mutant's guard."""
        run = self.play("calm", self.calm_seed, mutant=mutant, rate=0.0)
        assert not run.wrong, run.report()

    def check_sweep(self, runs: Iterable[Run], sure: Iterable[str]) -> str:
        """A sweep must have met all of this. Returns what it met, for people."""
        counts = met(runs)
        seen = self.table(counts)
        assert not [what for what in sure if not counts[what]], f"something never happened:\n{seen}"
        return seen

    def singles_of(self, story: str) -> list[Single]:
        """Every fault at every request of a story, which is played without any."""
        told = self.stories[story]
        asked = {service: Asked() for service in self.services}
        run, world = self.judged(story, "alone", "", partial(told.make, **asked))
        assert not run.wrong, f"{story}: it goes wrong without faults: {run.wrong}"
        singles = [
            Single(story, service, self.step_of(service, call), call.process, call.process_number, fault)
            for service, plan in asked.items()
            for call in plan.calls
            if call.process.partition("#")[0] not in self.spared and told.befallen(world, service, call)
            for fault in Fault
            if possible(fault, call)
        ]
        steps = {single.step for single in singles}
        missed = [what for what in told.meets if not run.counts[what] and what not in steps]
        assert not missed, f"{story}: it does not meet {missed}:\n{self.table(run.counts)}\n{sorted(steps)}"
        return singles

    def exhaustive(self, singles: Sequence[Single], *, workers: int = 1) -> list[Run]:
        """One run each."""
        return map_runs(partial(_exhaustive_one, self.world), list(singles), workers)

    def sample(self, every: int) -> list[Run]:
        """Each ``every``-th single fault of all stories: one run each."""
        singles = [single for story in self.stories for single in self.singles_of(story)]
        return self.exhaustive(singles[every // 2 :: every])

    def single_fault(self, single: Single) -> tuple[Run, Played]:
        """A story with one fault, at one call of one process to one of the services."""
        story, service, _, process, number, fault = single

        def make() -> Played:
            return self.stories[story].make(**{service: OneFault(process, number, fault)})

        options = {"story": story, "service": service, "process": process, "call": number, "fault": fault.name}
        again = replay_command(0, world=self.world, **options)
        run, world = self.judged(f"{fault.name} at call {number} of {process} to the {service}", story, again, make)
        met_it = run.wrong or run.counts[f"fault: {fault.value}"]
        return run if met_it else replace(run, wrong=("no request met the fault",)), world

    def never_happened(self, runs: Iterable[Run]) -> list[str]:
        """What a sweep of these runs should have met, and did not."""
        total = met(runs)
        return [what for what in self.must_happen if not total[what]]

    def table(self, counts: Counter[str]) -> str:
        """The counts as lines, what must happen and did not among them."""
        return "\n".join(f"{counts[what]:10,}  {what}" for what in sorted({*counts, *self.must_happen}))


def campaign_of(world: str) -> Campaign:
    """By name, as it is asked for in other processes too."""
    found = importlib.import_module(f"tests.simulation.{world}.campaign").CAMPAIGN
    assert isinstance(found, Campaign)
    return found


@cache
def _intact(world: str, scenario: str, seed: int, steps: int | None) -> Run:
    """Many mutants are compared with it."""
    return campaign_of(world).play(scenario, seed, max_steps=steps)


def _sweep_one(world: str, which: tuple[str, int]) -> Run:
    return campaign_of(world).play(*which)


def _teeth_one(world: str, mutant: str, seed: int) -> Run:
    campaign = campaign_of(world)
    run = campaign.without(mutant, seed)
    if run.wrong and run.wrong[0].startswith(_STANDSTILL):
        return replace(run, wrong=run.wrong if not campaign.intact(mutant, seed).wrong else ())
    return run


def _exhaustive_one(world: str, single: Single) -> Run:
    return campaign_of(world).single_fault(single)[0]


def replay_command(seed: int | str, **options: object) -> str:
    """The command that plays a run again."""
    given = " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in options.items() if value is not None)
    return f'make replay SEED={seed} ARGS="{given}"'


def met(runs: Iterable[Run]) -> Counter[str]:
    """How often each thing happened in these runs."""
    return sum((run.counts for run in runs), Counter[str]())


def by_scenario(runs: Iterable[Run]) -> str:
    """How many runs there were of each scenario, how many were wrong, and how long one took."""
    of: dict[str, list[Run]] = {}
    for run in runs:
        of.setdefault(run.scenario, []).append(run)
    rows = [
        f"| {scenario} | {len(its)} | {sum(bool(run.wrong) for run in its)} | {sum(run.seconds for run in its) / len(its):.2f} |"
        for scenario, its in of.items()
    ]
    return "\n".join(["| scenario | runs | wrong | seconds each |", "| --- | ---: | ---: | ---: |", *rows])


def map_runs(one: Callable[[Any], Run], items: list[Any], workers: int) -> list[Run]:
    if workers <= 1:
        return [_and_forget(one, item) for item in items]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(partial(_and_forget, one), items, chunksize=max(1, min(8, len(items) // (4 * workers)))))


def _and_forget(one: Callable[[Any], Run], item: Any) -> Run:
    """Collect the world at once: the next one would freeze it as if it were of the program."""
    run = one(item)
    gc.collect()
    return run
