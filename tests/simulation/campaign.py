"""The long runs, from the command line: ``python -m tests.simulation.campaign sweep | teeth | exhaustive | replay``.

With ``--world consumers`` they are those of `tests.simulation.consuming`, with any other those of the package of this name.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from penstock.log.errors import PenstockError, ViewLost
from penstock.log.tail.view import View
from tests.simulation.checker import check
from tests.simulation.faults import DRAWN, Fault, ScriptedFaults, Where, possible
from tests.simulation.mutants import MUTANTS
from tests.simulation.patches import attribute
from tests.simulation.scenarios import SCENARIOS, build, small_work
from tests.simulation.small import small_log
from tests.simulation.world import World

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in DRAWN),
    "ack", "lost race", "hand-over", "step-in", "void batch", "fenced", "trim", "trimmed entry", "late answer: believed",
    "late answer: refused", "a reader was trimmed past", "job linked", "collected hand-over", "collected job object",
    "topic created again", "restart", "clock step beyond 5 minutes", "refused by clock", "write landed after its caller was gone",
    "write landed twice", "send: unknown_outcome", "send: not_written", "send: producer_failed", "send: fenced", "replay",
    "expired row", "large batch beside its entry", "damaged rows", "damaged footer", "repair",
)  # fmt: skip
"""What a sweep must have met at least once; else it proves less than it seems to."""
TEETH_STEPS = 60_000
"""A mutant that takes longer has come to a standstill: what an intact protocol does in these worlds takes a tenth to a half of it."""


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


def play(
    scenario: str, seed: int | str, *, mutant: str | None = None, rate: float | None = None, max_steps: int | None = None
) -> Run:
    """Play a scenario and judge it; whatever stops the run is wrong too."""
    again = replay_command(seed, scenario=scenario, mutant=mutant)
    return judge(scenario, seed, again, partial(build, scenario, seed, rate=rate), mutant=mutant, max_steps=max_steps)[0]


def replay_command(seed: int | str, **options: object) -> str:
    """The command that plays a run again."""
    given = " ".join(f"--{name} {value}" for name, value in options.items() if value is not None)
    return f'make replay SEED={seed} ARGS="{given}"'


def judge(
    scenario: str,
    seed: int | str,
    again: str,
    make: Callable[[], World],
    *,
    mutant: str | None = None,
    max_steps: int | None = None,
) -> tuple[Run, World]:
    """Play the world that ``make`` makes, without the mutant's guard, and judge it."""
    started = time.perf_counter()
    with small_log(), MUTANTS[mutant].patch() if mutant else nullcontext():
        world = make()
        world.kernel.loop.max_steps = max_steps or world.kernel.loop.max_steps
        with counting_late_answers(world):
            try:
                wrong = check(world.run())
            except (AssertionError, PenstockError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                wrong = [f"{type(error).__name__}: {error}"]
    counts = world.counts + world.history.counts
    return Run(scenario, seed, again, tuple(wrong), counts, world.kernel.digest(), time.perf_counter() - started), world


@contextmanager
def counting_late_answers(world: World) -> Iterator[None]:
    """Count what becomes of answers about the tail that come when the view is too old to believe them."""

    def make(original: Any) -> Any:
        async def confirm(self: View, v: int) -> None:
            late = self.is_aged
            try:
                await original(self, v)
            except ViewLost:
                world.counts["late answer: refused"] += 1
                raise
            world.counts["late answer: believed"] += late

        return confirm

    with attribute(View, "confirm", make)():
        yield


# --------------------------------------------------------------------------------------------------------------- campaigns


def sweep(seeds: Iterable[int], *, workers: int = 1) -> list[Run]:
    """Each scenario at each of these seeds."""
    return map_runs(_sweep_one, [(scenario, seed) for seed in seeds for scenario in SCENARIOS], workers)


def _sweep_one(which: tuple[str, int]) -> Run:
    return play(*which)


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


def table(counts: Counter[str]) -> str:
    """The counts as lines, what must happen and did not among them."""
    return "\n".join(f"{counts[what]:10,}  {what}" for what in sorted({*counts, *MUST_HAPPEN}))


def never_happened(runs: Iterable[Run]) -> list[str]:
    """What a sweep of these runs should have met, and did not."""
    total = met(runs)
    return [what for what in MUST_HAPPEN if not total[what]]


def teeth(mutant: str, seeds: Iterable[int], *, workers: int = 1) -> list[Run]:
    """The runs in which a mutant is caught."""
    runs = map_runs(partial(_teeth_one, mutant), list(seeds), workers)
    return [run for run in runs if run.wrong]


def _teeth_one(mutant: str, seed: int) -> Run:
    scenario = MUTANTS[mutant].scenario
    run = play(scenario, seed, mutant=mutant, max_steps=TEETH_STEPS)
    if run.wrong and run.wrong[0].startswith("LimitReached"):  # not the mutant's doing if it takes so long without it, too
        return replace(run, wrong=run.wrong if not play(scenario, seed, max_steps=TEETH_STEPS).wrong else ())
    return run


def exhaustive(*, seed: int = 1, workers: int = 1, every: int = 1) -> list[Run]:
    """Every fault at every store call of a small workload, or each ``every``-th of those: one run each."""
    with small_log():
        world = small_work(seed, None).run()
    scripts = [
        (call.process, call.process_number, fault.name)
        for call in world.store.calls
        if call.process not in {"auditor", "founder"}
        for fault in Fault
        if possible(fault, call)
    ]
    return map_runs(partial(_exhaustive_one, seed), scripts[::every], workers)


def _exhaustive_one(seed: int, script: tuple[str, int, str]) -> Run:
    return single_fault(seed, *script)[0]


def single_fault(seed: int, process: str, number: int, fault: str) -> tuple[Run, World]:
    """The small workload with one fault, at one call of one process."""

    def make() -> World:
        return small_work(seed, ScriptedFaults([(Where(process=process, occurrence=number), Fault[fault])]))

    again = replay_command(seed, process=process, call=number, fault=fault)
    return judge(f"{fault} at call {number} of {process}", seed, again, make)


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


# ---------------------------------------------------------------------------------------------------------- command line


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if "--world" in arguments:  # whose modules know this one
        world = arguments[arguments.index("--world") + 1]
        package = {"consumers": "consuming"}.get(world, world)
        return int(importlib.import_module(f"tests.simulation.{package}.commands").main(arguments))
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("sweep", "teeth"):
        command = commands.add_parser(name)
        command.add_argument("--seeds", type=int, default=50, help="of each scenario, or each mutant")
        command.add_argument("--first-seed", type=int, default=0)
        command.add_argument("--workers", type=int, default=2)
        if name == "teeth":
            command.add_argument("--mutant", choices=sorted(MUTANTS), action="append")
    command = commands.add_parser("exhaustive")
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--every", type=int, default=1, help="only each so many-th of them")
    replay = commands.add_parser("replay")
    replay.add_argument("--seed", type=int, required=True)
    replay.add_argument("--scenario", choices=sorted(SCENARIOS))
    replay.add_argument("--mutant", choices=sorted(MUTANTS))
    single = replay.add_argument_group("a single fault of `exhaustive`")
    single.add_argument("--process")
    single.add_argument("--call", type=int, help="of this process, from 1")
    single.add_argument("--fault", choices=[fault.name for fault in Fault])
    replay.add_argument("--trace", type=int, default=200, help="how many of the last events to print")
    options = parser.parse_args(arguments)
    return {"sweep": _sweep, "teeth": _teeth, "exhaustive": _exhaustive, "replay": _replay}[options.command](options)


def _sweep(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    runs = sweep(range(options.first_seed, options.first_seed + options.seeds), workers=options.workers)
    seconds = time.perf_counter() - started
    for run in runs:
        _print_wrong(run)
    print(table(met(runs)))
    print(by_scenario(runs))
    missing = never_happened(runs)
    print(f"{len(runs)} runs, {60 * len(runs) / seconds:.0f} a minute, {sum(bool(run.wrong) for run in runs)} wrong")
    if missing:
        print(f"never happened: {', '.join(missing)}")
    return 1 if missing or any(run.wrong for run in runs) else 0


def _teeth(options: argparse.Namespace) -> int:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    toothless = []
    print(
        f"| guard removed | mutant | invariant | scenario | caught in {len(seeds)} seeds | first |\n| --- | --- | --- | --- | ---: | --- |",
        flush=True,
    )
    for name in options.mutant or MUTANTS:
        caught = teeth(name, seeds, workers=options.workers)
        first = f"{caught[0].seed}: {caught[0].wrong[0].splitlines()[0][:60]}" if caught else ""
        mutant = MUTANTS[name]
        print(f"| {mutant.guard} | {name} | {mutant.invariant} | {mutant.scenario} | {len(caught)} | {first} |", flush=True)
        toothless += [] if caught else [name]
    if toothless:
        print(f"not caught: {', '.join(toothless)}")
    return 1 if toothless else 0


def _exhaustive(options: argparse.Namespace) -> int:
    runs = exhaustive(workers=options.workers, every=options.every)
    for run in runs:
        _print_wrong(run)
    print(f"{len(runs)} single faults, {sum(bool(run.wrong) for run in runs)} wrong")
    return 1 if any(run.wrong for run in runs) else 0


def _replay(options: argparse.Namespace) -> int:
    if options.fault:
        run, world = single_fault(options.seed, options.process, options.call, options.fault)
    else:
        scenario = options.scenario or next(iter(SCENARIOS))
        make = partial(build, scenario, options.seed)
        run, world = judge(scenario, options.seed, replay_command(options.seed), make, mutant=options.mutant)
    print(world.kernel.trace.tail(options.trace))
    for what, count in sorted(run.counts.items()):
        print(f"{count:10,}  {what}")
    print(f"{run.scenario}, seed {run.seed}, digest {run.digest}")
    for line in run.wrong:
        print(line)
    return 1 if run.wrong else 0


def _print_wrong(run: Run) -> None:
    if run.wrong:
        print(run.report(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
