"""`make mutants`: which guards and comparisons does no test miss?"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.plugin import CAUGHT, HUNG, SURVIVED, UNSEEN, Mutation

QUICK = "not slow and not spark and not s3 and not versitygw and not dynamodb and not dynoxide and not postgres and not processes"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
"""Mutants that change nothing that anybody can see, each with the reason."""
AREAS = ("log", "coordinator", "consumers", "cdc")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", default=AREAS, help="modules or folders of the library (all protocol parts)")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="files or folders of tests (all)")
    parser.add_argument(
        "--marks", default=f"{QUICK} and not simulation", help="which tests, as pytest's -m takes it (the quick ones)"
    )
    parser.add_argument("--sample", type=int, help="so many mutants, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--again", type=Path, help="only those that survived in these results")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(".mutation/results.jsonl"),
        help="results, a line a mutant; those in it are not tried again",
    )
    parser.add_argument(
        "--seen", type=Path, default=Path(".mutation/seen.jsonl"), help="which test runs what, kept between runs of the same code"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=20, help="seconds of tests a mutant")
    parser.add_argument("--report", action="store_true", help="only tell what the results say")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.report:
        mutants = _chosen(options)
        print(f"{len(mutants)} mutants, seed {options.seed}")
        mutation = Mutation(mutants, out=options.out, seen=options.seen, workers=options.workers, budget_s=options.budget)
        arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", options.marks, *options.tests]
        if pytest.main(arguments, plugins=[mutation]) not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            return 2
    return report(_results(options.out))


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    listed = subprocess.run(["git", "ls-files", *options.paths], capture_output=True, text=True, check=True).stdout.split("\n")
    mutants = [one for path in listed if path.endswith(".py") for one in mutants_of(path, Path(path).read_bytes())]
    done = {one["mutant"] for one in _results(options.out)}
    if options.again:
        wanted = {one["mutant"] for one in _results(options.again) if one["verdict"] in {SURVIVED, UNSEEN}}
        mutants = [one for one in mutants if one.name in wanted]
    # Drawn in any case: what was tried when a run is stopped is a sample, too.
    size = len(mutants) if options.sample is None else min(options.sample, len(mutants))
    return [one for one in random.Random(options.seed).sample(mutants, size) if one.name not in done]


def equivalents() -> dict[str, str]:
    """The reason by the mutant's name."""
    return {one["name"]: one["reason"] for one in tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])}


def _results(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []


def report(results: list[dict[str, str]]) -> int:
    """A row a part, and every survivor that is not known to be equivalent. 1 when there is one."""
    known = equivalents()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        verdict = "equivalent" if one["mutant"] in known and one["verdict"] in {SURVIVED, UNSEEN} else one["verdict"]
        counts[one["path"].partition("/")[0]][verdict] += 1
    for part, by_verdict in sorted(counts.items()):
        caught = by_verdict[CAUGHT] + by_verdict[HUNG]
        tried = caught + by_verdict[SURVIVED] + by_verdict[UNSEEN]
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(by_verdict.items()))
        print(f"{part:12} {caught / max(1, tried):6.1%} of {tried}: {told}")
    left = (one for one in results if one["verdict"] in {SURVIVED, UNSEEN} and one["mutant"] not in known)
    survivors = sorted(left, key=lambda one: (one["path"], one["line"]))
    for one in survivors:
        print(f"{one['verdict']}: line {one['line']}: {one['mutant']}")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
