"""A capture of a database whose writers never rest: killed again and again, as is the server; and what must have become of its events."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

PATIENCE_S = 300.0
TOPIC = "changes"


class Server(Protocol):
    """A database's server."""

    def restart(self, how: signal.Signals) -> None:
        """End it by this signal, and start it again."""


class Captured(Protocol):
    """A database whose captures are processes of their own."""

    chunk_rows: int
    """So many rows a chunk of a snapshot has."""

    def command(self) -> Sequence[str]:
        """What `penstock capture` is told of the database."""

    def environment(self) -> Mapping[str, str]:
        """Variables of a capture's process."""


class Source(Captured, Protocol):
    """A database with tables, what writes to it, and what it says itself of its changes."""

    chunk_rows: int = 100
    begins_at: tuple[str, ...] = ()
    """Where a capture dies first of all: the points, and at which of their occurrences."""
    points: tuple[str, ...]
    """Where it is killed then. The order counts, as most points occur once."""
    points_of_stream: tuple[str, ...]
    """Those that occur again and again."""
    crashes: tuple[signal.Signals, signal.Signals]
    """What ends the server: at once, and in order."""
    batches_max: int = 12
    """A kill at any moment comes before a capture has sent so many batches."""

    @property
    def server(self) -> Server:
        """Where the database is."""

    def written(self, run: CaptureRun) -> AbstractContextManager[None]:
        """Writers that never rest until the block ends. Before it begins, the capture has died at ``begins_at``."""

    def change_seldom(self) -> None:
        """What writers do too seldom to count on. It is called once, amid the kills."""
        return

    def check(self, lake: str) -> None:
        """Every change must be in the topic once, and those of a message group in order; together they must make the tables that there are."""


@contextmanager
def child_process(folder: Path, environment: Mapping[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A module of Python in a process of its own, which is killed when the block ends. What it says is in ``errors`` of the folder."""
    with (folder / "errors").open("ab") as errors:
        command = [*die_with_parent(), sys.executable, "-m", *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdout=errors, stderr=errors, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@dataclass
class CaptureRun:
    """The capture of one database into one topic, process after process."""

    source: Captured
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

    def process(self, fatal: str = "never", *options: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        arguments = [
            str(self.journal),
            fatal,
            str(self.source.chunk_rows),
            *self.source.command(),
            "--topic",
            TOPIC,
            "--lake",
            self.lake,
        ]
        return child_process(self.folder, self.source.environment(), "tests.cdc.worker", *arguments, *options)

    def die_at(self, point: str) -> None:
        with self.process(point) as process:
            assert process.wait(PATIENCE_S) == -signal.SIGKILL, (point, self.said())
        self.killed["capture", point.partition(":")[0]] += 1

    def finish(self) -> None:
        with self.process("never", "--once") as process:
            assert process.wait(PATIENCE_S) == 0, self.said()

    def said(self) -> str:
        """The end of what the processes said."""
        return (self.folder / "errors").read_text()[-3000:]


@dataclass
class KillRun(CaptureRun):
    """A capture that is killed, or its server is."""

    source: Source

    def die_anywhere(self) -> None:
        with self.process() as process:
            self.get_on(self.chance.randrange(1, self.source.batches_max))
            assert process.poll() is None, self.said()
            process.kill()
        self.killed["capture", "any moment"] += 1

    def crash_server(self, *hows: signal.Signals) -> None:
        """Under a capture that goes on."""
        with self.process() as process:
            for how in hows:
                self.get_on(self.chance.randrange(1, self.source.batches_max))
                self.source.server.restart(how)
                self.killed["server", f"any moment, by {how.name}"] += 1
            self.get_on(3)
            assert process.poll() is None, self.said()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM, self.said()

    def at_random(self) -> None:
        """One more kill."""
        kinds: list[Callable[[], None]] = [
            self.die_anywhere,
            lambda: self.die_at(f"{self.chance.choice(self.source.points_of_stream)}:{self.chance.randint(1, 4)}"),
            lambda: self.crash_server(self.chance.choice(self.source.crashes)),
        ]
        self.chance.choice(kinds)()

    def reached(self) -> int:
        return self.journal.read_text().count("batch sent") if self.journal.exists() else 0

    def get_on(self, batches: int) -> None:
        before = self.reached()
        wait_until(lambda: self.reached() >= before + batches, "the capture gets on", timeout_s=PATIENCE_S)


@contextmanager
def running(source: Source, folder: Path, chance: random.Random) -> Iterator[KillRun]:
    """A run beneath writers that never rest, until the block ends. Then it is checked."""
    run = KillRun(source, folder, chance)
    with source.written(run):
        yield run
    run.finish()
    source.check(run.lake)


def killed_at(
    source: Source, folder: Path, chance: random.Random, then: Sequence[Callable[[KillRun], None]]
) -> Counter[tuple[str, str]]:
    """A capture that dies at each of the points, and then as it is told. What was killed, once nothing is lost or doubled."""
    with running(source, folder, chance) as run:
        for point in source.points:
            run.die_at(point)
        source.change_seldom()
        for kill in then:
            kill(run)
    return run.killed
