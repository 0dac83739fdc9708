"""Debezium on Kafka Connect, unmodified and with kill -9, through two gateways into Delta tables that equal a PostgreSQL.

    make demo-kafka ARGS="--transactions 1000 --lake ./connect"

A shop's tills run transactions over six tables. Debezium's connector captures them in two workers of Kafka Connect, whose brokers are two
gateways, and `penstock sync` keeps the tables. Both gateways are killed, and the worker that has the task; each is started again. In the end
every row is compared with the database. It exits with 1 if a single row differs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import penstock
from examples.live.errors import DemoFailedError
from examples.live.lake import new_folder
from examples.live.processes import end_by_signals

from .connect import check_programs
from .demo import Comparison, ConnectDemo

EXAMPLES = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.kafka_connect", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--transactions", type=int, default=360, help="how many the shop has at least (default: 360)")
    parser.add_argument("--rate", type=float, default=12.0, help="transactions a second, of all tills together (default: 12)")
    parser.add_argument("--seed", type=int, default=None, help="what the shop's chance begins with (default: any)")
    parser.add_argument("--lake", type=Path, metavar="FOLDER", help="a new folder for lake and tables, which stays")
    given = parser.parse_args()
    if given.transactions <= 0 or given.rate <= 0:
        parser.error("--transactions and --rate must be above 0")
    end_by_signals()
    try:
        check_programs()
        kept = None if given.lake is None else new_folder(given.lake)
    except DemoFailedError as failed:
        print(f"✗ {failed}", file=sys.stderr)
        return 2
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10_000)
    scratch = Path(tempfile.mkdtemp(prefix="penstock-connect-"))
    scratch.chmod(0o755)  # where root runs it, the database is another user's
    try:
        code = play(ConnectDemo(kept or scratch, scratch, given.transactions, given.rate, seed, Said()))
    except KeyboardInterrupt:
        print("\ninterrupted; all processes are ended", file=sys.stderr)
        code = 130
    except SystemExit:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    if code in (0, 130):
        shutil.rmtree(scratch, ignore_errors=True)
    else:
        print(f"The processes' logs are in {scratch}", file=sys.stderr)
    if kept is not None:
        print(f"The lake is {kept}/lake, its tables {kept}/tables.")
    return code


class Said:
    """Lines with the time since the beginning."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, mark: str, text: str) -> None:
        print(f"{mark} {time.monotonic() - self._began_s:5.1f} s  {text}", flush=True)


def play(demo: ConnectDemo) -> int:
    """One run, told. Returns the exit code."""
    try:
        found = demo.run()
    except (DemoFailedError, penstock.PenstockError) as failed:
        print(f"✗ {failed}", file=sys.stderr)
        return 2
    report(found)
    return 0 if found.well else 1


def report(found: Comparison) -> None:
    """The tables beside their source."""
    print()
    for name, rows in found.rows.items():
        different = found.differences[name]
        print(f"  {name:<12} {rows:>6,} rows  {f'✗ {len(different):,} differ' if different else 'equal'}")
        for told in different[:EXAMPLES]:
            print(f"    {told}")
    killed = ", ".join(f"{name} {count}" for name, count in found.kills.items())
    print(
        f"\n  {found.events:,} events of {found.transactions:,} transactions; {found.repeated:,} came once more. kill -9: {killed}."
    )
    total = sum(found.rows.values())
    print(f"\nAll {total:,} rows equal PostgreSQL's." if found.well else "\nThis is not as it should be.")


if __name__ == "__main__":
    sys.exit(main())
