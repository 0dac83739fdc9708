"""The long runs of a world of its own, from Python and from the command line: ``python -m tests.simulation.campaign … --world timers``.

Such a world is a package with a module ``campaign``, whose ``CAMPAIGN`` says what there is to play.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from penstock.log.errors import PenstockError
from tests.simulation.campaign import Run, by_scenario, map_runs, met, replay_command
from tests.simulation.faults import Call, Fault, possible
from tests.simulation.kernel import Kernel
from tests.simulation.patches import Patch
from tests.simulation.requests import SimService
from tests.simulation.singles import OneFault, Single, Story
from tests.simulation.singles import table as table_of_singles
from tests.simulation.small import small_log

TEETH_STEPS = 40_000


class Played(Protocol):
    """One run. ``run`` plays it, and returns what is wrong."""

    kernel: Kernel

    def run(self) -> list[str]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One guard less."""

    guard: str
    """What it lacks."""
    rule: str
    """Of the judge, that needs the guard first of all."""
    patch: Patch
    scenario: str
    seeds: tuple[int, ...] = ()
    """Of the scenario, that caught it when this was written."""
    calm: bool = True
    """Whether a run without faults goes right without it."""
    steps: int = TEETH_STEPS
    """Without it a run that takes longer has come to a standstill, if the intact one does not."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What there is to play of a world."""

    world: str
    scenarios: Mapping[str, Callable[..., Played]]
    """Each makes the world of a seed; with ``rate`` 0 without faults."""
    swept: Sequence[str]
    """The scenarios that a sweep plays at each of its seeds."""
    mutants: Mapping[str, Mutant]
    must_happen: Sequence[str]
    """What a sweep must have met at least once; else it proves less than it seems to."""
    stories: Mapping[str, Story]
    """For single faults."""
    step_of: Callable[[str, Call], str]
    """What a request to a service is for."""
    services: Callable[[Played], Mapping[str, SimService[object]]]
    """Whose calls single faults befall."""
    spared: frozenset[str] = frozenset()
    """Processes without whose calls nothing would be there."""

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
        with small_log(), self.mutants[mutant].patch() if mutant else nullcontext():
            world = make()
            world.kernel.loop.max_steps = max_steps or world.kernel.loop.max_steps
            try:
                wrong = world.run()
            except (AssertionError, PenstockError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                wrong = [f"{type(error).__name__}: {error}"]
        counts, seconds = world.kernel.counts, time.perf_counter() - started
        return Run(scenario, seed, again, tuple(wrong), counts, world.kernel.digest(), seconds), world

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

    def singles_of(self, story: str) -> list[Single]:
        """Every fault at every request of a story, which is played without any."""
        told = self.stories[story]
        run, world = self.judged(story, "alone", "", told.make)
        assert not run.wrong, f"{story}: it goes wrong without faults: {run.wrong}"
        singles = [
            Single(story, service, self.step_of(service, call), call.process, call.process_number, fault)
            for service, of_service in self.services(world).items()
            for call in of_service.calls
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

    def single_fault(self, single: Single) -> tuple[Run, Played]:
        """A story with one fault, at one call of one process to one of the services."""
        story, service, _, process, number, fault = single

        def make() -> Played:
            return self.stories[story].make(**{service: OneFault(process, number, fault)})

        options = {"story": f"'{story}'", "service": service, "process": process, "call": number, "fault": fault.name}
        again = replay_command(0, world=self.world, **options)
        run, world = self.judged(f"{fault.name} at call {number} of {process} to the {service}", story, again, make)
        met_it = run.wrong or run.counts[f"fault: {fault.value}"]
        return run if met_it else replace(run, wrong=("no request met the fault",)), world

    def never_happened(self, runs: Iterable[Run], *, but: Sequence[str] = ()) -> list[str]:
        """What a sweep of these runs should have met, and did not."""
        total = met(runs)
        return [what for what in self.must_happen if not total[what] and what not in but]

    def table(self, counts: Counter[str]) -> str:
        """The counts as lines, what must happen and did not among them."""
        return "\n".join(f"{counts[what]:10,}  {what}" for what in sorted({*counts, *self.must_happen}))


def campaign_of(world: str) -> Campaign:
    """That of ``tests.simulation.<world>``; by name, as it is asked for in other processes too."""
    found = importlib.import_module(f"tests.simulation.{world}.campaign").CAMPAIGN
    assert isinstance(found, Campaign)
    return found


def _sweep_one(world: str, which: tuple[str, int]) -> Run:
    return campaign_of(world).play(*which)


def _teeth_one(world: str, mutant: str, seed: int) -> Run:
    campaign = campaign_of(world)
    scenario, steps = campaign.mutants[mutant].scenario, campaign.mutants[mutant].steps
    run = campaign.play(scenario, seed, mutant=mutant, max_steps=steps)
    if run.wrong and run.wrong[0].startswith("LimitReached"):
        return replace(run, wrong=run.wrong if not campaign.play(scenario, seed, max_steps=steps).wrong else ())
    return run


def _exhaustive_one(world: str, single: Single) -> Run:
    return campaign_of(world).single_fault(single)[0]


# --- The command line ---------------------------------------------------------------------------------------------------------------


def main(world: str, arguments: list[str]) -> int:
    campaign = campaign_of(world)
    parser = argparse.ArgumentParser(prog="campaign", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = {"sweep": _sweep, "teeth": _teeth, "exhaustive": _exhaustive, "replay": _replay}
    made = {name: commands.add_parser(name) for name in runs}
    for command in made.values():
        command.add_argument("--world", choices=[world], required=True)
        command.add_argument("--workers", type=int, default=2)
    for name in ("sweep", "teeth"):
        made[name].add_argument("--seeds", type=int, default=50, help="of each scenario, or each mutant")
        made[name].add_argument("--first-seed", type=int, default=0)
    made["teeth"].add_argument("--mutant", choices=sorted(campaign.mutants), action="append")
    made["teeth"].add_argument("--enough", type=int, default=5, help="so many detections of a mutant end it (0: play all seeds)")
    made["exhaustive"].add_argument("--every", type=int, default=1, help="only each so many-th of them")
    made["exhaustive"].add_argument("--story", choices=list(campaign.stories), action="append", help="only these")
    replay = made["replay"]
    replay.add_argument("--seed", type=int, required=True)
    replay.add_argument("--scenario", choices=sorted(campaign.scenarios))
    replay.add_argument("--mutant", choices=sorted(campaign.mutants))
    replay.add_argument("--trace", type=int, default=200, help="how many of the last events to print")
    single = replay.add_argument_group("a single fault of `exhaustive`")
    single.add_argument("--story", choices=list(campaign.stories))
    single.add_argument("--service", default="store")
    single.add_argument("--process")
    single.add_argument("--call", type=int, help="of this process, from 1")
    single.add_argument("--fault", choices=[fault.name for fault in Fault])
    options = parser.parse_args(arguments)
    return runs[options.command](campaign, options)


def _sweep(campaign: Campaign, options: argparse.Namespace) -> int:
    started = time.perf_counter()
    runs = campaign.sweep(range(options.first_seed, options.first_seed + options.seeds), workers=options.workers)
    seconds = time.perf_counter() - started
    wrong = _print_wrong(runs)
    print(campaign.table(met(runs)))
    print(by_scenario(runs))
    print(f"{len(runs)} runs, {60 * len(runs) / seconds:.0f} a minute, {wrong} wrong")
    if missing := campaign.never_happened(runs):
        print(f"never happened: {', '.join(missing)}")
    return 1 if missing or wrong else 0


def _teeth(campaign: Campaign, options: argparse.Namespace) -> int:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    toothless = []
    print(
        "| guard removed | mutant | rule | scenario | caught / played | first at | by |\n"
        "| --- | --- | --- | --- | ---: | ---: | --- |",
        flush=True,
    )
    for name in options.mutant or campaign.mutants:
        mutant = campaign.mutants[name]
        runs = campaign.teeth(name, seeds, workers=options.workers, enough=options.enough or None)
        caught = [(place, run) for place, run in enumerate(runs, 1) if run.wrong]
        first, by = (str(caught[0][0]), caught[0][1].wrong[0].splitlines()[0][:60]) if caught else ("", "")
        print(
            f"| {mutant.guard} | {name} | {mutant.rule} | {mutant.scenario} | {len(caught)} / {len(runs)} | {first} | {by} |",
            flush=True,
        )
        toothless += [] if caught else [name]
    if toothless:
        print(f"not caught: {', '.join(toothless)}")
    return 1 if toothless else 0


def _exhaustive(campaign: Campaign, options: argparse.Namespace) -> int:
    played: list[tuple[Single, bool]] = []
    for story in options.story or campaign.stories:
        started = time.perf_counter()
        singles = campaign.singles_of(story)[:: options.every]
        runs = campaign.exhaustive(singles, workers=options.workers)
        wrong = _print_wrong(runs)
        print(f"{story}: {len(runs)} single faults, {wrong} wrong, {time.perf_counter() - started:.0f} s", flush=True)
        played += zip(singles, (bool(run.wrong) for run in runs), strict=True)
    print(table_of_singles(played))
    return 1 if any(is_wrong for _, is_wrong in played) else 0


def _replay(campaign: Campaign, options: argparse.Namespace) -> int:
    if options.fault:
        single = Single(options.story, options.service, "", options.process, options.call, Fault[options.fault])
        run, world = campaign.single_fault(single)
    else:
        scenario = options.scenario or campaign.swept[0]
        again = replay_command(options.seed, world=campaign.world)
        made = partial(campaign.scenarios[scenario], options.seed)
        run, world = campaign.judged(scenario, options.seed, again, made, mutant=options.mutant)
    print(world.kernel.trace.tail(options.trace))
    for what, count in sorted(run.counts.items()):
        print(f"{count:10,}  {what}")
    print(f"{run.scenario}, seed {run.seed}, digest {run.digest}")
    for line in run.wrong:
        print(line)
    return 1 if run.wrong else 0


def _print_wrong(runs: list[Run]) -> int:
    wrong = [run for run in runs if run.wrong]
    for run in wrong:
        print(run.report(), flush=True)
    return len(wrong)
