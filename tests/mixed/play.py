"""Producers, workers, gateways, maintenance and a sync of two versions in one lake, killed and rolled forward and back; then it is judged.

    python -m tests.mixed.play --minutes 5 --seed 7 --store local

Each start of a process is of another version than the one before at its place, so the versions mix all the time. What is done to whom
follows from the seed; when, from the machine. So a seed does not repeat a run to the letter, and does repeat its kind.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final
from unittest import mock

from tests.mixed import legs
from tests.mixed.legs import Leg, MixedPlan, Scene
from tests.mixed.versions import WITH_POSTGRESQL, NoSuchVersion, Version, current, former
from tests.processes.consuming.chaos import APART, KEPT, place, say_at_once

SHORT: Final = MixedPlan(messages=1_500, records=1_500, seconds=10.0, is_short=True)


def run(kind: str, folder: Path, versions: Sequence[Version], plan: MixedPlan, seed: int) -> list[Leg]:
    """One run in an empty folder: what each of its parts came to. A part that broke is a problem of its own."""
    with place(kind, folder) as empty:
        ground = empty._replace(interpreters=tuple(one.python for one in versions))
        scene = Scene(ground, folder, versions, plan, seed)
        over = threading.Event()
        with mock.patch.dict(os.environ, ground.environment), ThreadPoolExecutor(4) as pool:
            ahead = {part.__name__: pool.submit(part, scene) for part in (legs.workers, legs.gateways)}
            beside = {part.__name__: pool.submit(part, scene, over) for part in (legs.upkeep, legs.syncs)}
            wait(ahead.values())
            over.set()
            found = [_came_to(name, one) for name, one in (ahead | beside).items()]
            return [*found, _came_to(legs.verified.__name__, pool.submit(legs.verified, scene))]


def _came_to(name: str, part: Future[Leg]) -> Leg:
    error = part.exception()
    return part.result() if error is None else Leg(name, [f"it broke: {type(error).__name__} {error}"])


def report(found: Sequence[Leg], say: Callable[[str], None]) -> None:
    for leg in found:
        say(f"{leg.name}: {len(leg.problems)} problems; done: {dict(sorted(leg.done.items()))}")
        for line in leg.lines:
            say(line)
        for problem in leg.problems[:20]:
            say(f"  WRONG: {problem}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0, help="shared by the stores; each run drains and judges behind that")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", choices=(*KEPT, APART), action="append", help=f"default: {' and '.join(KEPT)}")
    parser.add_argument("--former", default="", help="a tag or commit; default: the last release")
    parser.add_argument("--short", action="store_true", help="as small as in make test-all")
    parser.add_argument("--folder", type=Path, default=None, help="where lakes and logs stay; default: removed at the end")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    stores = given.store or list(KEPT)
    try:
        pairs = {kind: (former(given.former or (WITH_POSTGRESQL if kind == APART else "")), current()) for kind in stores}
    except NoSuchVersion as error:
        print(error, file=sys.stderr)
        return 2
    seconds = given.minutes * 60 / len(stores)
    rate = 150
    plan = SHORT if given.short else MixedPlan(messages=int(rate * seconds), records=int(rate * seconds), seconds=seconds)
    failed = False
    for kind, versions in pairs.items():
        how = "--short" if given.short else f"--minutes {given.minutes / len(stores):g}"
        print(f"replay: python -m tests.mixed.play {how} --seed {seed} --store {kind} --former {versions[0].name}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            folder = (given.folder or Path(scratch)) / kind
            folder.mkdir(parents=True)
            found = run(kind, folder, versions, plan, seed)
        report(found, say_at_once)
        failed |= any(leg.problems for leg in found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
