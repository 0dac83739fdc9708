"""Captures that are killed for long, at each of their points and at random, as are the servers. The topic is compared each 34 kills or so.

    python -m tests.cdc.kill_campaign --source mariadb --kills 100

A MySQL: see tests/mysql_server.py.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from tests.cdc.debezium.kill_source import binlog_source
from tests.cdc.killing import KillRun, Source, killed_at
from tests.cdc.mongodb.kill_source import mongodb_source
from tests.cdc.postgres.kill_source import postgres_source

SOURCES: Mapping[str, Callable[[Path | None], AbstractContextManager[Source]]] = {
    "postgres": postgres_source,
    "mariadb": partial(binlog_source, "mariadb"),
    "mysql": partial(binlog_source, "mysql"),
    "mongodb": mongodb_source,
}
"""By kind: a server with its tables. The folder keeps what later ones of a campaign take over, if anything."""
EACH = 34
"""Kills of one database, about."""


def campaign(kind: str, folder: Path, chance: random.Random, kills: int) -> Counter[tuple[str, str]]:
    """What was killed, until there were so many."""
    total: Counter[tuple[str, str]] = Counter()
    while total.total() < kills:
        part = folder / f"part-{total.total()}"
        part.mkdir()
        with SOURCES[kind](folder) as source:
            points = len(source.begins_at) + len(source.points)
            more = max(0, min(EACH, kills - total.total()) - points)
            total += killed_at(source, part, chance, [KillRun.at_random] * more)
        print(f"{total.total()} kills: nothing lost, nothing twice", flush=True)
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=list(SOURCES), default="mariadb")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-killing-") as folder:
        killed = campaign(options.source, Path(folder), random.Random(options.seed), options.kills)
    for (process, point), count in sorted(killed.items()):
        print(f"{count:5} {process}: {point}")


if __name__ == "__main__":
    main()
