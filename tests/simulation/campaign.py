"""The long runs, from the command line: ``python -m tests.simulation.campaign sweep | teeth | exhaustive | replay --world timers``.

Without ``--world`` they are those of the log.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

from tests.simulation.faults import Fault
from tests.simulation.singles import Single, table
from tests.simulation.sweeping import WORLDS, Campaign, Run, by_scenario, campaign_of, met, replay_command


def main(arguments: Sequence[str] | None = None) -> int:
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--world", choices=WORLDS, default="log")
    chosen, _ = first.parse_known_args(arguments)
    campaign = campaign_of(chosen.world)
    parser = argparse.ArgumentParser(prog="campaign", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = {"sweep": _sweep, "teeth": _teeth, "exhaustive": _exhaustive, "replay": _replay}
    made = {name: commands.add_parser(name) for name in runs}
    for command in made.values():
        command.add_argument("--world", choices=WORLDS, default="log")
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
    print(table(played))
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


if __name__ == "__main__":
    sys.exit(main())
