"""A capture of a database whose writers never rest: killed again and again, as is the server; and what must have become of its events."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.cdc.postgres.judge import check_stream, comparable, events_of, expected_changes, folded, selected
from tests.cdc.postgres.writers import LOAD, SCHEMA, Writers
from tests.postgres_server import PostgresServer, postgres_server
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

POINTS = (
    "published:1",
    "slot created:1",
    "chunk planned:1",
    "chunk sent:3",
    "chunk durable:5",
    "table done:1",
    "snapshot done:1",
    "batch sent:20",
    "batch durable:1",
    "confirmed:2",
)
"""Where a capture is killed, and the how manyeth time that it is there; in this order, as most come once."""
OF_STREAM = ("batch sent", "batch durable", "confirmed")
PATIENCE_S = 180.0


@dataclass
class Run:
    """The capture of one database into one topic, process after process."""

    server: PostgresServer
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
        arguments = [str(self.journal), fatal, "100", "postgres", self.server.dsn, "--topic", "changes", "--lake", self.lake]
        command = [sys.executable, "-m", "tests.cdc.postgres.worker", *arguments, *options]
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen([*die_with_parent(), *command], cwd=ROOT, stdout=errors, stderr=errors)
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
            self.get_on(self.chance.randrange(1, 30))
            assert process.poll() is None, self.said()
            process.kill()
        self.killed["capture", "any moment"] += 1

    def crash_server(self, *hows: signal.Signals) -> None:
        """Under a capture that goes on."""
        with self.process() as process:
            for how in hows:
                self.get_on(self.chance.randrange(3, 20))
                self.server.restart(how)
                self.killed["server", f"any moment, by {how.name}"] += 1
            self.get_on(3)
            assert process.poll() is None, self.said()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM, self.said()

    def at_random(self) -> None:
        """One more kill."""
        kinds: list[Callable[[], None]] = [
            self.die_anywhere,
            lambda: self.die_at(f"{self.chance.choice(OF_STREAM)}:{self.chance.randint(1, 4)}"),
            lambda: self.crash_server(self.chance.choice((signal.SIGQUIT, signal.SIGINT))),
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


def killed_at(folder: Path, chance: random.Random, then: Sequence[Callable[[Run], None]]) -> Counter[tuple[str, str]]:
    """A capture that dies at each of the points, and then as it is told; all that the server said is in the topic, each once and in order,
    and makes the tables that the server has. What was killed.
    """
    with postgres_server() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(SCHEMA)
        connection.execute(LOAD)
        run = Run(server, folder, chance)
        writers = Writers(server.dsn, count=3, seed=chance.randrange(10_000))
        writers.start()
        try:
            for point in POINTS[:2]:
                run.die_at(point)
            # A second slot, of before the snapshot, is the judge of what the first one told.
            [(since,)] = connection.execute("SELECT pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::int8 FROM pg_replication_slots")
            connection.execute("SELECT pg_copy_logical_replication_slot('penstock', 'judge')")
            for point in POINTS[2:]:
                run.die_at(point)
            connection.execute("TRUNCATE visits")  # which the writers do by chance, seldom
            for kill in then:
                kill(run)
        finally:
            writers.stop()
        run.finish()
        events = events_of(run.lake, "changes")
        check_stream(events, expected_changes(server.dsn, "judge", "penstock", since))
        wanted = comparable(selected(server.dsn))
    for batches in (1, 7):
        assert comparable(folded(events, batches=batches)) == wanted
    kinds = Counter(event.op for event in events)
    assert all(kinds[op] > 5 for op in "rcud"), kinds
    assert kinds["t"], kinds
    assert writers.committed > 100
    return run.killed
