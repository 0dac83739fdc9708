"""The whole way of change data, its processes killed at random: PostgreSQL, capture, producer, drivers of syncs, executors, workers, writers.

    python -m tests.processes.syncing.chaos --kills 100 --spark 12 --seed 7

Every row of every target is compared with the judge after each kill of a driver. Where each is killed (before, in or after a step, or at any
moment) follows from the seed. Of the kills ``--spark`` end drivers of Spark's, JVM and all; ``--captures`` a capture or its PostgreSQL, beside
the others; the rest drivers without Spark. Executors, workers and producers are killed besides.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from penstock.cdc.sync.options import STEPS
from tests.cdc.killing import KillRun, killed_at
from tests.cdc.postgres.kill_source import PostgresSource, postgres_source
from tests.cdc.sync.crashes import ASIDE_POINTS, COMPACT_POINTS, POINTS
from tests.postgres_server import find_postgres
from tests.processes.syncing.syncs import ANY, Syncs
from tests.spark.produce.lives import ALL_LIVES, written_in_lives

Kills = Counter[tuple[str, str]]


def captures(folder: Path, chance: random.Random, kills: int) -> Kills:
    """A capture that is killed so often, or its server is."""
    folder.mkdir()
    points = len(PostgresSource.begins_at) + len(PostgresSource.points)
    with postgres_source() as source:
        return killed_at(source, folder, chance, [KillRun.at_random] * (kills - points))


def writes(folder: Path) -> Kills:
    """Ordered writes of a stream, whose driver is killed at each step, and the worker of a task in each batch."""
    folder.mkdir()
    workers = written_in_lives(folder, ALL_LIVES)
    return Counter({("worker, write_ordered", "between two parts"): workers}) + Counter(
        ("driver, write_ordered", f"after {step}") for step, _ in ALL_LIVES if step != "never"
    )


def table(killed: Mapping[tuple[str, str], int]) -> str:
    """Kill point by process, and how often."""
    width = max((len(who) for who, _ in killed), default=0)
    lines = [f"  {who:{width}}  {point:28} {count:4}" for (who, point), count in sorted(killed.items())]
    return "\n".join([f"  {'process':{width}}  {'killed':28}times", *lines])


def markdown(killed: Mapping[tuple[str, str], int]) -> str:
    """The same of syncs as a table in Markdown: a row for each step and moment, a column for each process, and the sums of both."""
    every = dict.fromkeys([*POINTS, *ASIDE_POINTS, *COMPACT_POINTS])
    order = [f"{moment} {step}" for step in (*STEPS, "compact") for of, moment in every if of == step] + [ANY]
    processes = sorted({who for who, _ in killed if who.startswith(("driver, deltalake", "driver, spark", "executors", "workers"))})
    rows = [["killed", *processes, "all"]]
    for point in order:
        times = [killed.get((who, point), 0) for who in processes]
        rows.append([point, *map(str, times), str(sum(times))])
    sums = [sum(count for (who, point), count in killed.items() if who == one and point in order) for one in processes]
    rows.append(["all", *map(str, sums), str(sum(sums))])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--spark", type=int, default=12)
    parser.add_argument("--captures", type=int, help="default: a fifth of the kills, where there is a PostgreSQL")
    parser.add_argument("--minutes", type=float, help="end with fewer kills of drivers after so long")
    parser.add_argument(
        "--slow", type=float, default=1.0, help="how many times as long as usual to wait for a step, on a busy machine"
    )
    parser.add_argument("--keep", type=Path, help="an empty folder, which is kept, for lakes and targets")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    of_capture = given.kills // 5 if given.captures is None else given.captures
    if of_capture and not find_postgres().exists():
        print("no PostgreSQL was found: run `make setup`; no capture is killed", flush=True)
        of_capture = 0
    of_writes = sum(step != "never" for step, _ in ALL_LIVES) if given.spark > len(ALL_LIVES) else 0
    of_syncs = max(given.kills - of_capture - of_writes, 1)
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="penstock-syncing-") as name, ThreadPoolExecutor(1) as beside:
        folder = given.keep or Path(name)
        (folder / "syncs").mkdir()
        of_spark = min(given.spark - of_writes, of_syncs)
        syncs = Syncs(folder / "syncs", of_syncs, of_spark, random.Random(chance.random()), given.minutes, given.slow)
        capturing: Future[Kills] | None = None
        if of_capture:
            capturing = beside.submit(captures, folder / "captures", random.Random(chance.random()), of_capture)
        try:
            syncs.run()
            killed = syncs.killed + (writes(folder / "writes") if of_writes else Counter())
            if capturing is not None:
                killed += capturing.result()
        except BaseException:
            print(syncs.said(), table(syncs.killed), sep="\n", file=sys.stderr)
            raise
    print(table(killed), markdown(killed), sep="\n\n")
    print(
        f"{killed.total()} kills; {syncs.rows:,} rows compared in {syncs.checks} comparisons of all targets, and the whole at the end:"
    )
    print("nothing is missing, doubled or different")


if __name__ == "__main__":
    main()
