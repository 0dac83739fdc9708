"""A PostgreSQL whose tables do not stay as they are, captured and synced beneath kills; every cut and every row compared with its history.

python -m tests.cdc.ddl.campaign --transactions 2000 --seed 7 [--listed] [--slow]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

import penstock
from penstock.cdc.cuts.cut import NoCut
from penstock.cdc.cuts.reading import kept_cuts
from tests.cdc.ddl.changes import START, Source
from tests.cdc.ddl.history import History, Table, difference
from tests.postgres_server import PostgresServer, find_postgres, postgres_server
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

PUBLICATION = "penstock"
PATIENCE_S = 240.0
MAIN = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]


def lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


@dataclass
class Campaign:
    """One database, its capture and its sync, and what is known of it."""

    server: PostgresServer
    folder: Path
    chance: random.Random
    listed: bool
    history: History = field(default_factory=History)
    done: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _rest: threading.Event = field(default_factory=threading.Event)
    """Never set: the source rests by waiting for it."""

    @property
    def into(self) -> str:
        return str(self.folder / "into")

    def call(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*die_with_parent(), *MAIN, *words], cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "NO_COLOR": "1"}
            )

    def capture(self, *options: str) -> subprocess.Popen[bytes]:
        where = ("--topic", "changes", "--lake", str(self.folder / "lake"), "--publication", PUBLICATION, "--heartbeat")
        return self.call("capture", "capture", "postgres", self.server.dsn, *where, *options)

    def sync(self, *options: str) -> subprocess.Popen[bytes]:
        where = ("--into", self.into, "--lake", str(self.folder / "lake"), "--engine", "deltalake", "--cuts", "--interval", "300ms")
        return self.call("sync", "sync", "changes", *where, "--rename", "*={schema}_{table}", "--compact-every", "30", *options)

    # --- The source -----------------------------------------------------------------------------------------------------------------

    def prepare(self, source: Source) -> None:
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(START.encode())
            names = "plain, whole, pair, indexed, parts, ONLY parent, ONLY child, other.away"
            of = f"FOR TABLE {names}" if self.listed else "FOR ALL TABLES"
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} {of} WITH (publish_via_partition_root = true)".encode())
        self.note(source, 0)

    def note(self, source: Source, before: int) -> None:
        """Note all tables after a commit."""
        captured = source.captured()
        changed: dict[str, Table | None] = {folder: source.table(*name) for folder, name in captured.items()}
        known = self.history.tables[-1] if self.history.tables else {}
        changed |= {folder: None for folder in known if folder not in changed}
        self.history.add(
            before, {folder: table for folder, table in changed.items() if table is None or known.get(folder) != table}
        )
        source.connection.rollback()

    def transact(self, source: Source) -> None:
        try:
            what = source.draw()
            (text,) = source.connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("0/0",)
            if self.chance.random() < 0.03:
                source.connection.rollback()
                return
            source.connection.commit()
        except (
            psycopg.errors.IntegrityError,
            psycopg.errors.ObjectNotInPrerequisiteState,
            psycopg.errors.DuplicateObject,
        ) as error:
            source.connection.rollback()
            self.done[f"refused: {type(error).__name__}"] += 1
            return
        self.done[what] += 1
        self.note(source, lsn(text))

    # --- The whole ------------------------------------------------------------------------------------------------------------------

    def play(self, transactions: int, *, slow: bool) -> None:
        source = Source(self.server.dsn, self.chance, PUBLICATION if self.listed else None)
        self.prepare(source)
        with self.standby(slow):
            processes = {"capture": self.capture()}
            wait_until((self.folder / "lake" / "topics" / "changes" / "topic.json").exists, "the topic", timeout_s=PATIENCE_S)
            processes["sync"] = self.sync()
            try:
                self._rounds(source, processes, transactions)
            finally:
                for process in processes.values():
                    process.kill()
                    process.wait()
        self.end()

    def _rounds(self, source: Source, processes: dict[str, subprocess.Popen[bytes]], transactions: int) -> None:
        next_kill = self.chance.randrange(30, 150)
        while sum(count for what, count in self.done.items() if not what.startswith("refused")) < transactions:
            self.transact(source)
            if self.chance.random() < 0.02:
                self._rest.wait(self.chance.choice((0.2, 1.0, 2.5)))  # the source is quiet for a moment: a cut may come
            next_kill -= 1
            if not next_kill:
                next_kill = self.chance.randrange(30, 150)
                name = self.chance.choice(("capture", "capture", "sync", "server"))
                if name == "server":
                    self.server.restart(self.chance.choice((signal.SIGQUIT, signal.SIGINT)))
                    source.reconnect()
                else:
                    processes[name].send_signal(self.chance.choice((signal.SIGKILL, signal.SIGTERM)))
                    processes[name].wait(PATIENCE_S)
                self.killed[name] += 1
            for name, start in (("capture", self.capture), ("sync", self.sync)):
                if (code := processes[name].poll()) is not None:
                    if code not in (0, -signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGTERM):
                        self.wrong.append(f"{name} ended with {code}: {self.said(name)}")
                    processes[name] = start()

    def end(self) -> None:
        """Let everything come to its end."""
        for name, start in (("capture", self.capture), ("sync", self.sync), ("capture", self.capture), ("sync", self.sync)):
            process = start("--once")
            if (code := process.wait(PATIENCE_S)) != 0:
                self.wrong.append(f"{name} --once ended with {code}: {self.said(name)}")

    @contextmanager
    def standby(self, slow: bool) -> Iterator[None]:
        """A synchronous standby that takes the log late: what is committed is in the log before anybody sees it."""
        if not slow:
            yield
            return
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'slow'")
        self.server.restart(signal.SIGINT)
        over = threading.Event()
        folder = self.folder / "received"
        folder.mkdir()

        def receive() -> None:
            while not over.is_set():
                command = [
                    str(find_postgres() / "pg_receivewal"),
                    "-D",
                    str(folder),
                    "-d",
                    f"{self.server.dsn}?application_name=slow",
                    "--synchronous",
                ]
                process = subprocess.Popen([*die_with_parent(), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while process.poll() is None and not over.wait(self.chance.random() / 4):
                    process.send_signal(signal.SIGSTOP)
                    over.wait(self.chance.random() / 3)
                    process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with psycopg.connect(self.server.dsn, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
                connection.execute("SELECT pg_reload_conf()")

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-1500:]

    # --- The judge ------------------------------------------------------------------------------------------------------------------

    def judge(self) -> Counter[str]:
        seen = Counter[str]()
        try:
            cuts = kept_cuts(self.into).cuts
        except NoCut:
            self.wrong.append("there is no cut at all")
            return seen
        last = len(self.history.tables)
        for cut in cuts:
            (place,) = cut.places.values()
            count, tables = self.history.at(lsn(place))
            found = penstock.at_cut(self.into, cut.number)
            seen["cuts"] += 1
            for folder in sorted(cut.tables):
                wanted = tables.get(folder)
                if wanted is None:
                    self.wrong.append(f"cut {cut.number} at {place} ({count} of {last}) names {folder}, which is not captured then")
                    continue
                seen["tables of cuts"] += 1
                seen["rows of cuts"] += len(wanted.rows)
                if (problem := difference(wanted, found[folder])) is not None:
                    self.wrong.append(f"cut {cut.number} at {place} ({count} of {last}): {folder}: {problem}")
            for folder in tables.keys() - cut.tables.keys():
                seen["tables that cuts leave out" if folder in cut.incomplete else "tables that cuts do not know yet"] += 1
        newest, final = cuts[-1], self.history.tables[-1]
        found = penstock.at_cut(self.into, newest.number)
        for folder, wanted in sorted(final.items()):
            if folder in newest.incomplete:
                seen["stopped in the end"] += 1
                print("stopped:", folder, newest.incomplete[folder])
            elif folder not in newest.tables:
                self.wrong.append(f"in the end {folder} is not there, and nobody says why")
            elif (problem := difference(wanted, found[folder])) is not None:
                self.wrong.append(f"in the end {folder}: {problem}")
            else:
                seen["equal in the end"] += 1
        return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument(
        "--listed", action="store_true", help="a publication of named tables, into which and out of which tables go"
    )
    parser.add_argument("--slow", action="store_true", help="with a synchronous standby that is slow")
    parser.add_argument("--keep", help="a folder that is kept")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as made, postgres_server() as server:
        folder = Path(options.keep or made)
        folder.mkdir(exist_ok=True)
        campaign = Campaign(server, folder, random.Random(options.seed), options.listed)
        campaign.play(options.transactions, slow=options.slow)
        seen = campaign.judge()
    print(dict(campaign.done))
    print("killed:", dict(campaign.killed))
    print(dict(seen))
    for one in campaign.wrong:
        print("WRONG:", one)
    sys.exit(1 if campaign.wrong else 0)


if __name__ == "__main__":
    main()
