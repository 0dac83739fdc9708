"""One sync of many generated tables for long, its processes killed and paused: in the end every target equals its source.

    python -m tests.processes.syncing.soak --minutes 60 --tables 100 --rate 500 --seed 7

The command `penstock sync` runs, with a file that renames, masks and rejects. Its process, the one that works for it, or the producer is killed
at any moment, or the working one stands still for longer than its lease. What is drawn follows from the seed; when it happens, from the machine.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import psutil
from deltalake import DeltaTable

import penstock
from penstock import GroupNotFound
from tests.cdc.sync.streams import TOPIC, Row, rows
from tests.processes.syncing import tables_producer
from tests.processes.syncing.tables import CONFIG, Database
from tests.servers import die_with_parent
from tests.tree import ROOT

QUEUES = 8
PATIENCE_S = 600.0
PAUSE_S = 8.0
"""Longer than a lease."""
IN_USE = 2
"""The exit code of a sync that another one keeps from beginning."""
VICTIMS = ("worker", "worker", "worker", "command", "producer", "worker, paused")
PENSTOCK = "from penstock.infra.cli import main; main(prog_name='penstock')"


@dataclass
class Soak:
    """One campaign, in a folder."""

    folder: Path
    seed: int
    tables: int = 100
    rate: float = 500.0
    """Changes a second."""
    between_s: tuple[float, float] = (3.0, 20.0)
    """How long a process lives, at least and at most."""
    catch_up_s: float = PATIENCE_S
    """How long the sync may take at the end for what it is behind by."""
    killed: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    """Rows, at the end."""
    changes: int = 0

    def run(self, seconds: float) -> None:
        """Raises `AssertionError` where a target differs from its source."""
        chance = random.Random(self.seed)
        self.lake, self.into = str(self.folder / "lake"), self.folder / "targets"
        (self.folder / "sync.toml").write_text(CONFIG.replace("INTO", str(self.into)))
        with penstock.connect(self.lake, maintenance=False) as lake:
            lake.create_topic(TOPIC, queues=QUEUES, message_type="FIFO")
        until_s, sending, syncing = time.monotonic() + seconds, self._producer(), self._sync()
        paused = False
        try:
            while time.monotonic() < until_s:
                victim, lives_s = chance.choice(VICTIMS), chance.uniform(*self.between_s)
                with suppress(subprocess.TimeoutExpired):
                    code = syncing.wait(min(lives_s, max(0.0, until_s - time.monotonic())))
                    # One that stood still before it had the lease waits no longer for the other one, which was killed as its holder.
                    assert paused, f"the sync ended by itself: {code}\n{self.said()}"
                    assert code == IN_USE, self.said()
                    syncing = self._sync()
                paused = victim == "worker, paused"
                if victim == "producer":
                    self._end(sending)
                    sending = self._producer()
                elif paused:
                    self._pause(syncing)
                else:
                    self._end(syncing, worker_first=victim == "worker")
                    syncing = self._sync()
                self.killed[victim] += 1
                print(f"  {self.killed.total()} kills; {max(0.0, until_s - time.monotonic()):,.0f} s to go", flush=True)
        finally:
            self._end(sending)
            self._end(syncing)
        # On a busy machine each may have been killed before it made the group.
        with penstock.connect(self.lake, read_only=True) as lake, suppress(GroupNotFound):
            print(f"  {lake.describe_group(f'sync-{TOPIC}').lag:,} changes are still to be applied", flush=True)
        last = self._sync("--once")
        assert last.wait(self.catch_up_s) == 0, self.said()
        self._compare()

    def _compare(self) -> None:
        with penstock.connect(self.lake, read_only=True) as lake, lake.reader(TOPIC) as reader:
            self.changes = sum(end - start for start, end in reader.offsets().values())
        database = Database(self.seed, self.tables)
        for _ in islice(database, self.changes):
            pass
        for name, wanted in database.targets().items():
            path = self.into / name
            found = [_known(row) for row in rows(path)] if DeltaTable.is_deltatable(str(path)) else []
            assert not (odd := _different(found, wanted)), f"{name}: {len(odd)} of {len(wanted)} rows differ: {odd[:3]}"
            self.compared += len(wanted)
        aside = rows(self.into / "_rejected") if database.unfit else []
        assert len(aside) == len({(row["queue"], row["offset"]) for row in aside}) == database.unfit, "rejected events, each once"

    # --- Processes --------------------------------------------------------------------------------------------------------------

    def _producer(self) -> subprocess.Popen[bytes]:
        return self._start("-m", tables_producer.__name__, self.lake, self.seed, self.tables, self.rate)

    def _sync(self, *more: str) -> subprocess.Popen[bytes]:
        return self._start("-c", PENSTOCK, "sync", TOPIC, "--config", self.folder / "sync.toml", "--lake", self.lake, *more)

    def _start(self, *arguments: object) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        with (self.folder / "said.txt").open("ab") as said:
            command = [*die_with_parent(), sys.executable, *map(str, arguments)]
            return subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said, start_new_session=True, env=environment)

    @staticmethod
    def _workers(running: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """What works for a command; none before it has begun, and after its end."""
        try:
            return psutil.Process(running.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _end(self, running: subprocess.Popen[bytes], *, worker_first: bool = False) -> None:
        """Kill a process; what works for it is gone too when this returns."""
        workers = self._workers(running)
        for worker in workers if worker_first else ():
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(PATIENCE_S)
        psutil.wait_procs(workers, PATIENCE_S)

    def _pause(self, syncing: subprocess.Popen[bytes]) -> None:
        """Let the working process stand still, and another driver of the sync wait for its lease meanwhile."""
        workers = self._workers(syncing)
        other = self._sync()
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.suspend()
        with suppress(subprocess.TimeoutExpired):
            other.wait(PAUSE_S)
        self._end(other)
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.resume()

    def said(self) -> str:
        """What commands and producers said at the end."""
        return (self.folder / "said.txt").read_text(errors="replace")[-3000:]


def _known(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _different(found: list[Row], wanted: list[Row]) -> list[tuple[Row | None, Row | None]]:
    """The rows of a target that are not the source's, each beside that one."""
    there, source = ({row["id"]: row for row in rows} for rows in (found, wanted))
    assert len(there) == len(found), "a key has several rows"
    return [(there.get(key), source.get(key)) for key in sorted({*there, *source}) if there.get(key) != source.get(key)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--rate", type=float, default=500.0, help="changes a second")
    parser.add_argument(
        "--lives", type=float, nargs=2, default=(3.0, 20.0), help="how many seconds a process lives, at least and at most"
    )
    parser.add_argument("--keep", type=Path, help="an empty folder, which is kept, for the lake and the targets")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        least, most = given.lives
        soak = Soak(
            given.keep or Path(folder), given.seed, given.tables, given.rate, (least, most), given.minutes * 60 + PATIENCE_S
        )
        try:
            soak.run(given.minutes * 60)
        except BaseException:
            print(soak.said(), file=sys.stderr)
            raise
    for victim, times in sorted(soak.killed.items()):
        print(f"  {victim:16} {times:4}")
    print(f"{soak.changes:,} changes of {given.tables} tables; {soak.compared:,} rows compared: every target equals its source")


if __name__ == "__main__":
    main()
