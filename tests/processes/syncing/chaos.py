"""A sync that follows a topic, its driver and the topic's producer killed at random, and every row of every target compared each time.

    python -m tests.processes.syncing.chaos --kills 100 --seed 7 [--spark 10]

Where a driver is killed (before, in or after one of the steps of a batch, or at any moment) and when the producer is, follows from the
seed. ``--spark`` of the drivers are Spark's, JVM and all; the others merge without it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import penstock
from tests.processes.syncing import driver, producer
from tests.processes.syncing.producer import changes
from tests.servers import die_with_parent
from tests.spark.sync.crashes import POINTS, Check, stored
from tests.spark.sync.streams import TOPIC
from tests.tree import ROOT

QUEUES = 2
PATIENCE_S = 300.0
BLOCKS_PER_KILL, PAUSE_S = 8, 1.0
"""So that the producer still sends when the last driver is killed: one needs 8 s or so, most of them for the lease of the one before."""
STEP_S = 15.0
"""For a step to be reached; not every one comes again, as a batch may need no new table."""
ANY, NOT_REACHED = "any moment", "any moment, its step not reached"


@dataclass
class Run:
    """One campaign, in a folder."""

    folder: Path
    kills: int
    spark: int
    random: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    checks: int = 0

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")

    @property
    def into(self) -> Path:
        return self.folder / "targets"

    def run(self) -> None:
        """Raises `AssertionError` at the first row that is wrong."""
        blocks = BLOCKS_PER_KILL * self.kills
        with penstock.connect(self.lake, maintenance=False) as lake:
            lake.create_topic(TOPIC, queues=QUEUES, message_type="FIFO")
        of_spark = set(self.random.sample(range(self.kills), self.spark))
        sending = self.start(producer.__name__, self.lake, blocks, PAUSE_S)
        try:
            for number in range(self.kills):
                sending = self.producer_again(sending, blocks)
                self.kill_driver("spark" if number in of_spark else "deltalake")
                Check(self.into, stored(self.lake))()
                self.checks += 1
            sending.kill()
            sending.wait()
            assert self.start(producer.__name__, self.lake, blocks, 0.0).wait(PATIENCE_S) == 0
        finally:
            sending.kill()
            sending.wait()
        messages = stored(self.lake)
        assert len(messages) == sum(1 for _ in changes(blocks)), "the producer's events are there, each once"
        for engine in ("deltalake", "spark") if self.spark else ("deltalake",):
            assert self.driver(engine, 10_000, "-", "end", 0).wait(PATIENCE_S) == 0
            Check(self.into, messages)(complete=True)

    def producer_again(self, sending: subprocess.Popen[bytes], blocks: int) -> subprocess.Popen[bytes]:
        """Kill it in every other round."""
        if self.random.random() < 0.5:
            sending.kill()
            sending.wait()
            self.killed["producer"] += 1
            return self.start(producer.__name__, self.lake, blocks, PAUSE_S)
        return sending

    def kill_driver(self, engine: str) -> None:
        step, moment = self.random.choice([*POINTS, *[(ANY, "")] * 5])
        if step == ANY:
            running = self.driver(engine, self.random.choice([3, 12, 100]), "-", "", 0)
            # Time passes while it works: what it is in the middle of is chance's.
            with suppress(subprocess.TimeoutExpired):
                running.wait(self.random.uniform(1, STEP_S))
            assert running.returncode is None, f"the driver ended by itself: {running.returncode}"
            os.killpg(running.pid, signal.SIGKILL)
        else:
            running = self.driver(engine, self.random.choice([3, 12, 100]), step, moment, self.random.randint(1, 3))
            try:
                running.wait(STEP_S * (3 if engine == "spark" else 1))
            except subprocess.TimeoutExpired:
                step, moment = NOT_REACHED, ""
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
        assert running.wait(PATIENCE_S) == -signal.SIGKILL
        self.killed[f"{engine}: {f'{moment} {step}' if moment else step}"] += 1

    def driver(self, engine: str, batch: int, *point: object) -> subprocess.Popen[bytes]:
        return self.start(driver.__name__, self.lake, self.into, engine, batch, *point)

    def start(self, module: str, *arguments: object) -> subprocess.Popen[bytes]:
        with (self.folder / "errors.txt").open("ab") as errors:
            command = [*die_with_parent(), sys.executable, "-m", module, *map(str, arguments)]
            return subprocess.Popen(command, cwd=ROOT, stdout=errors, stderr=errors, start_new_session=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--spark", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-syncing-") as folder:
        run = Run(Path(folder), given.kills, min(given.spark, given.kills), random.Random(given.seed))
        try:
            run.run()
        except BaseException:
            print((Path(folder) / "errors.txt").read_text()[-3000:], file=sys.stderr)
            raise
    for what, count in sorted(run.killed.items()):
        print(f"{count:5}  killed: {what}")
    print(f"{run.checks} comparisons of every row with the judge, and the whole at the end: nothing missing, doubled or different")


if __name__ == "__main__":
    main()
