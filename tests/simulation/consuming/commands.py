"""The long runs with consumers, from the command line: ``python -m tests.simulation.campaign … --world consumers``."""

from __future__ import annotations

import argparse
import time
from functools import partial

from tests.simulation.campaign import Run, by_scenario, met, replay_command
from tests.simulation.consuming.campaign import exhaustive, judged, never_happened, single_fault, sweep, table, teeth
from tests.simulation.consuming.mutants import MUTANTS
from tests.simulation.consuming.scenarios import SCENARIOS, build
from tests.simulation.faults import Fault


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = {"sweep": _sweep, "teeth": _teeth, "exhaustive": _exhaustive, "replay": _replay}
    made = {name: commands.add_parser(name) for name in runs}
    for command in made.values():
        command.add_argument("--world", choices=["consumers"], required=True)
        command.add_argument("--workers", type=int, default=2)
    for name in ("sweep", "teeth"):
        made[name].add_argument("--seeds", type=int, default=50, help="of each scenario, or each mutant")
        made[name].add_argument("--first-seed", type=int, default=0)
    made["teeth"].add_argument("--mutant", choices=sorted(MUTANTS), action="append")
    made["teeth"].add_argument("--enough", type=int, default=5, help="so many detections of a mutant end it (0: play all seeds)")
    made["exhaustive"].add_argument("--every", type=int, default=1, help="only each so many-th of them")
    replay = made["replay"]
    replay.add_argument("--seed", type=int, required=True)
    replay.add_argument("--scenario", choices=sorted(SCENARIOS))
    replay.add_argument("--mutant", choices=sorted(MUTANTS))
    replay.add_argument("--trace", type=int, default=200, help="how many of the last events to print")
    single = replay.add_argument_group("a single fault of `exhaustive`")
    single.add_argument("--service", choices=["table", "store"])
    single.add_argument("--process")
    single.add_argument("--call", type=int, help="of this process, from 1")
    single.add_argument("--fault", choices=[fault.name for fault in Fault])
    options = parser.parse_args(arguments)
    return runs[options.command](options)


def _sweep(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    runs = sweep(range(options.first_seed, options.first_seed + options.seeds), workers=options.workers)
    seconds = time.perf_counter() - started
    wrong = _print_wrong(runs)
    counts = met(runs)
    print(table(counts))
    print(by_scenario(runs))
    hours = counts["simulated seconds"] / 3600
    print(
        f"{len(runs)} runs, {60 * len(runs) / seconds:.0f} and {60 * hours / seconds:.1f} simulated hours a minute, {wrong} wrong"
    )
    if missing := never_happened(runs):
        print(f"never happened: {', '.join(missing)}")
    return 1 if missing or wrong else 0


def _teeth(options: argparse.Namespace) -> int:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    toothless = []
    print(
        "| guard removed | mutant | rule | scenario | caught / played | in 500 | first at | by |\n"
        "| --- | --- | --- | --- | ---: | ---: | ---: | --- |",
        flush=True,
    )
    for name in options.mutant or MUTANTS:
        mutant, found = MUTANTS[name], teeth(name, seeds, workers=options.workers, enough=options.enough or None)
        by = found.caught[0].wrong[0].splitlines()[0][:60] if found.caught else ""
        figures = f"{len(found.caught)} / {len(found.runs)} | {found.per_500:.0f} | {found.first or ''}"
        print(f"| {mutant.guard} | {name} | {mutant.rule} | {mutant.scenario} | {figures} | {by} |", flush=True)
        toothless += [] if found.caught else [name]
    if toothless:
        print(f"not caught: {', '.join(toothless)}")
    return 1 if toothless else 0


def _exhaustive(options: argparse.Namespace) -> int:
    runs = exhaustive(workers=options.workers, every=options.every)
    wrong = _print_wrong(runs)
    print(f"{len(runs)} single faults, {wrong} wrong")
    return 1 if wrong else 0


def _replay(options: argparse.Namespace) -> int:
    if options.fault:
        run, world = single_fault(1, options.service, options.process, options.call, options.fault)
    else:
        scenario = options.scenario or next(iter(SCENARIOS))
        again = replay_command(options.seed, world="consumers")
        run, world = judged(scenario, options.seed, again, partial(build, scenario, options.seed), mutant=options.mutant)
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
