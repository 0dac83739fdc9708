"""A capture of a MariaDB whose writers never rest: killed again and again, as is the server; and what must have become of its events.

python -m tests.cdc.debezium.killing --kills 100 [--source mysql]
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
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cdc.debezium.commands import QUICK_JAVA
from tests.cdc.debezium.judge import check_stream, comparable, events_of, folded, selected
from tests.cdc.debezium.writers import LOAD, SCHEMA, Writers
from tests.mariadb_server import PASSWORD, MariaDBServer, mariadb_server
from tests.mysql_server import find_mysql_driver, mysql_server
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

POINTS = (
    "renewed:1",
    "place known:1",
    "history durable:1",
    "begun:1",
    "chunk planned:1",
    "chunk sent:2",
    "chunk durable:3",
    "table done:1",
    "rows done:1",
    "batch sent:4",
    "batch durable:2",
    "place saved:2",
)
"""Where a capture is killed, and the how manyeth time that it is there; in this order, as most come once."""
OF_STREAM = ("batch sent", "batch durable", "place saved")
SERVERS: dict[str, Callable[..., AbstractContextManager[MariaDBServer]]] = {"mariadb": mariadb_server, "mysql": mysql_server}
PATIENCE_S = 300.0


@dataclass
class Run:
    """The capture of one database into one topic, process after process."""

    server: MariaDBServer
    folder: Path
    chance: random.Random
    java: str = QUICK_JAVA
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
        url = f"{self.server.url}/shop"
        where = ["--topic", "changes", "--lake", self.lake]
        if self.server.kind == "mysql":
            where += ["--driver-jar", str(find_mysql_driver())]
        command = [
            sys.executable,
            "-m",
            "tests.cdc.debezium.worker",
            str(self.journal),
            fatal,
            "100",
            self.server.kind,
            url,
            *where,
            *options,
        ]
        environment = {**os.environ, "PENSTOCK_DATABASE_PASSWORD": PASSWORD, "JAVA_TOOL_OPTIONS": self.java}
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen([*die_with_parent(), *command], cwd=ROOT, stdout=errors, stderr=errors, env=environment)
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
def running(folder: Path, chance: random.Random, java: str = QUICK_JAVA, kind: str = "mariadb") -> Iterator[Run]:
    """A server whose writers never rest, until the block ends. Then all that it says must be in the topic, each once and in order, and make the
    tables that it has.
    """
    with SERVERS[kind](max_binlog_size="262144") as server:
        server.run("USE shop", *SCHEMA)
        with server.connect(database="shop") as connection, connection.cursor() as cursor:
            for statement in LOAD:
                cursor.execute(statement)
        run = Run(server, folder, chance, java)
        writers = Writers(server, count=2, seed=chance.randrange(10_000))
        writers.start()
        try:
            yield run
        finally:
            writers.stop()
        run.finish()
        check(run)
        assert writers.committed > 20


def check(run: Run) -> None:
    """Compare every row, and look for changes that are there twice or not at all."""
    events = events_of(run.lake, "changes")
    check_stream(events)
    wanted = comparable(selected(run.server))
    for batches in (1, 7):
        found = comparable(folded(events, batches=batches))
        assert found.keys() == wanted.keys()
        for table, rows in wanted.items():
            differs = {
                key: (found[table].get(key), rows.get(key))
                for key in {*found[table], *rows}
                if found[table].get(key) != rows.get(key)
            }
            assert not differs, (table, differs)
    kinds = Counter(event.op for event in events)
    assert all(kinds[op] > 5 for op in "rcud"), kinds


def archived_classes(folder: Path, kind: str) -> str:
    """Options of a Java that finds the classes that a capture loads in an archive, made by a capture that nobody kills."""
    archive = folder / "classes.jsa"
    with SERVERS[kind]() as server:
        server.run("USE shop", *SCHEMA, "INSERT INTO orders VALUES (1, 0, NULL, NULL, NULL, NULL)")
        Run(server, folder, random.Random(0), f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={archive}").finish()
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={archive}"


def campaign(folder: Path, chance: random.Random, kills: int, kind: str) -> Counter[tuple[str, str]]:
    """Kills at each of the points, then at random until there were so many; the topic is compared at the end of each 34 or so."""
    total: Counter[tuple[str, str]] = Counter()
    java = archived_classes(folder, kind)
    while total.total() < kills:
        part = folder / f"part-{total.total()}"
        part.mkdir()
        with running(part, chance, java, kind) as run:
            for point in POINTS:
                run.die_at(point)
            while run.killed.total() < min(34, kills - total.total()):
                run.at_random()
        total += run.killed
        sys.stdout.write(f"{total.total()} kills: nothing lost, nothing twice\n")
        sys.stdout.flush()
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--source", choices=sorted(SERVERS), default="mariadb", help="mysql: see tests/mysql_server.py")
    options = parser.parse_args(arguments)
    sys.stdout.write(f"seed {options.seed}\n")
    with tempfile.TemporaryDirectory(prefix="penstock-killing-") as folder:
        killed = campaign(Path(folder), random.Random(options.seed), options.kills, options.source)
    for (process, point), count in sorted(killed.items()):
        sys.stdout.write(f"{count:5} {process}: {point}\n")


if __name__ == "__main__":
    main()
