"""A capture of a MongoDB whose writers never rest: killed again and again, as is the server; and what must have become of its events.

python -m tests.cdc.mongodb.killing --kills 100
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cdc.mongodb.judge import begun_at, check_stream, events_of, folded, found_in, told_by
from tests.cdc.mongodb.writers import DATABASE, Writers, load
from tests.mongodb_server import MongoDBServer, mongodb_server
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

BEGINNING = "begun:1"
POINTS = (
    "chunk planned:1",
    "chunk sent:2",
    "chunk durable:3",
    "table done:1",
    "rows done:1",
    "batch sent:4",
    "batch durable:2",
    "place saved:2",
)
"""Where a capture is killed: the point, and at which of its occurrences. The order counts, as most points occur once."""
OF_STREAM = ("batch sent", "batch durable", "place saved", "chunk planned", "chunk sent")
PATIENCE_S = 300.0


@dataclass
class Run:
    """The capture of one database into one topic, process after process."""

    server: MongoDBServer
    folder: Path
    chance: random.Random
    killed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By process and point."""

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @contextmanager
    def process(self, fatal: str = "never", *options: str) -> Iterator[subprocess.Popen[bytes]]:
        where = ["--topic", "changes", "--lake", self.lake, "--heartbeat"]
        command = [sys.executable, "-m", "tests.cdc.mongodb.worker", str(self.journal), fatal, "60"]
        command += ["mongodb", self.server.url(DATABASE), *where, *options]
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen([*die_with_parent(), *command], cwd=ROOT, stdout=errors, stderr=errors, env={**os.environ})
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def die_at(self, point: str) -> None:
        with self.process(point) as process:
            assert process.wait(PATIENCE_S) == -signal.SIGKILL, (point, self.said())
        self.killed["capture", point.partition(":")[0]] += 1

    def die_anywhere(self) -> None:
        with self.process() as process:
            self.get_on(self.chance.randrange(1, 12))
            assert process.poll() is None, self.said()
            process.kill()
        self.killed["capture", "any moment"] += 1

    def crash_server(self, *hows: signal.Signals) -> None:
        """Under a capture that goes on."""
        with self.process() as process:
            for how in hows:
                self.get_on(self.chance.randrange(1, 8))
                self.server.restart(how)
                self.killed["server", f"any moment, by {how.name}"] += 1
            self.get_on(2)
            assert process.poll() is None, self.said()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM, self.said()

    def at_random(self) -> None:
        """One more kill."""
        kinds: list[Callable[[], None]] = [
            self.die_anywhere,
            lambda: self.die_at(f"{self.chance.choice(OF_STREAM)}:{self.chance.randint(1, 4)}"),
            lambda: self.crash_server(self.chance.choice((signal.SIGKILL, signal.SIGTERM))),
        ]
        self.chance.choice(kinds)()

    def reached(self) -> int:
        return self.journal.read_text().count("batch sent") if self.journal.exists() else 0

    def get_on(self, batches: int) -> None:
        before = self.reached()
        wait_until(lambda: self.reached() >= before + batches, "the capture gets on", timeout_s=PATIENCE_S)

    def finish(self) -> None:
        with self.process("never", "--once") as process:
            assert process.wait(PATIENCE_S) == 0, self.said()

    def said(self) -> str:
        return (self.folder / "errors").read_text()[-3000:]


@contextmanager
def running(folder: Path, chance: random.Random) -> Iterator[Run]:
    """A server whose writers never rest, until the block ends. Then all that it says must be in the topic, each once, and make its collections."""
    with mongodb_server() as server:
        load(server)
        run = Run(server, folder, chance)
        run.die_at(BEGINNING)
        begin = begun_at(run.lake)
        writers = Writers(server, count=2, seed=chance.randrange(10_000))
        writers.start()
        try:
            yield run
        finally:
            writers.stop()
        run.finish()
        events, told = events_of(run.lake, "changes"), told_by(server, begin)
        check_stream(events, told)
        wanted = found_in(server)
        for batches in (1, 7):
            assert folded(events, batches=batches) == wanted
        kinds = Counter(event.op for event in events)
        assert all(kinds[op] > 2 for op in "rcud"), kinds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    sys.stdout.write(f"seed {options.seed}\n")
    chance = random.Random(options.seed)
    total: Counter[tuple[str, str]] = Counter()
    while total.total() < options.kills:
        with tempfile.TemporaryDirectory(prefix="penstock-killing-") as folder, running(Path(folder), chance) as run:
            for point in POINTS:
                run.die_at(point)
            while run.killed.total() < min(34, options.kills - total.total()):
                run.at_random()
        total += run.killed
        sys.stdout.write(f"{total.total()} kills: nothing lost, nothing twice\n")
        sys.stdout.flush()
    for (process, point), count in sorted(total.items()):
        sys.stdout.write(f"{count:5} {process}: {point}\n")


if __name__ == "__main__":
    main()
