"""A database whose tables do not stay as they are, captured and synced beneath kills; every cut and every row compared with its history.

python -m tests.cdc.ddl.campaign --transactions 2000 --seed 7 [--source mariadb|mongodb] [--publication tables|schema] [--slow]
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
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import penstock
from penstock.cdc.cuts.cut import Cut, NoCut, TableVersion
from penstock.cdc.cuts.cut_history import kept_cuts
from tests.cdc.ddl.history import EMPTY, History, Table, difference
from tests.cdc.ddl.mariadb import MariaDB
from tests.cdc.ddl.mongodb import MongoDB
from tests.cdc.ddl.postgres import PUBLICATIONS, Postgres
from tests.cdc.ddl.source import Source
from tests.mariadb_server import mariadb_server
from tests.mongodb_server import mongodb_server
from tests.postgres_server import postgres_server
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

PATIENCE_S = 240.0
BETWEEN_CUTS, CUT_S = 20, 15.0
"""After how many transactions a cut is waited for, and how long: none may come where somebody is away."""
ENOUGH_CUTS = 11
"""The source goes on until there are so many, however slow the machine is."""
MAIN = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]
KINDS = ("postgres", "mariadb", "mongodb")


@contextmanager
def source(kind: str, folder: Path, chance: random.Random, *, publication: str = "all", slow: bool = False) -> Iterator[Source]:
    """A database of one kind, until the block ends."""
    if kind == "postgres":
        with postgres_server() as server, closing(Postgres(server, chance, folder, publication=publication, slow=slow)) as tables:
            yield tables
    elif kind == "mongodb":
        with mongodb_server() as documents, closing(MongoDB(documents, chance)) as made:
            yield made
    else:
        with mariadb_server(max_binlog_size="65536", general_log="ON", general_log_file=str(folder / "statements")) as binlog:
            yield MariaDB(binlog, chance)


@dataclass
class Campaign:
    """One database, its capture and its sync, and what is known of it."""

    source: Source
    folder: Path
    chance: random.Random
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
        environment = {**os.environ, "NO_COLOR": "1", **self.source.environment()}
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([*die_with_parent(), *MAIN, *words], cwd=ROOT, stdout=log, stderr=log, env=environment)

    def capture(self, *options: str) -> subprocess.Popen[bytes]:
        where = ("--topic", "changes", "--lake", str(self.folder / "lake"), "--heartbeat")
        return self.call("capture", "capture", *self.source.capture(), *where, *options)

    def sync(self, *options: str) -> subprocess.Popen[bytes]:
        where = ("--into", self.into, "--lake", str(self.folder / "lake"), "--engine", "deltalake", "--cuts", "--interval", "300ms")
        return self.call("sync", "sync", "changes", *where, "--rename", "*={schema}_{table}", "--compact-every", "30", *options)

    # --- The source -----------------------------------------------------------------------------------------------------------------

    def note(self, before: int) -> None:
        """Note all tables after a commit."""
        now, known = self.source.tables(), self.history.tables[-1] if self.history.tables else {}
        changed = {name: table for name, table in now.items() if known.get(name) != table}
        self.history.add(before, {**changed, **dict.fromkeys(known.keys() - now.keys())}, self.source.doing)

    @property
    def committed(self) -> int:
        return sum(count for what, count in self.done.items() if not what.startswith(("refused", "rolled back")))

    def transact(self) -> None:
        try:
            self.done[self.source.transact(self.note)] += 1
        except self.source.refused as error:
            self.source.rollback()
            self.done[f"refused: {type(error).__name__}"] += 1

    # --- The whole ------------------------------------------------------------------------------------------------------------------

    def play(self, transactions: int) -> None:
        self.source.prepare()
        self.note(0)
        with self.source.beside():
            processes = {"capture": self.capture()}
            wait_until((self.folder / "lake" / "topics" / "changes" / "topic.json").exists, "the topic", timeout_s=PATIENCE_S)
            processes["sync"] = self.sync()
            try:
                self._rounds(processes, transactions)
                self.source.finish(self.note)
            finally:
                for process in processes.values():
                    process.kill()
                    process.wait()
        self.end()

    def _rounds(self, processes: dict[str, subprocess.Popen[bytes]], transactions: int) -> None:
        next_kill, said, next_cut = self.chance.randrange(30, 150), 0, BETWEEN_CUTS
        while (is_short := self.committed < transactions) or self._cuts() < ENOUGH_CUTS:
            self.transact()
            if self.committed >= next_cut or not is_short:
                next_cut = self.committed + BETWEEN_CUTS
                self._await_cut()
            if self.committed > said + 250:
                said = self.committed
                print(f"{said} transactions", flush=True)
            if self.chance.random() < self.source.rest:
                self._rest.wait(self.chance.choice((0.2, 1.0, 2.5)))  # the source is quiet for a moment: a cut may come
            next_kill -= 1
            if not next_kill:
                next_kill = self.chance.randrange(30, 150)
                name = self.chance.choice(("capture", "sync", "server"))
                if name == "server":
                    how = self.source.restart()
                else:
                    how = self.chance.choice((signal.SIGKILL, signal.SIGTERM))
                    processes[name].send_signal(how)
                    processes[name].wait(PATIENCE_S)
                    if name == "capture" and self.chance.random() < 0.3:
                        self.source.unseen(self.note)
                    for _ in range(self.chance.choice((0, 0, 5, 30))):
                        self.transact()
                self.killed[f"{name} by {how.name}"] += 1
            for name, start in (("capture", self.capture), ("sync", self.sync)):
                if (code := processes[name].poll()) is not None:
                    if code not in (0, -signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGTERM):
                        self.wrong.append(f"{name} ended with {code}: {self.said(name)}")
                    processes[name] = start()

    def _await_cut(self) -> None:
        """Rest until a cut comes, for a while."""
        before, until_s = self._cuts(), time.monotonic() + CUT_S
        while self._cuts() == before and time.monotonic() < until_s:
            self._rest.wait(0.1)

    def _cuts(self) -> int:
        try:
            return len(kept_cuts(self.into).cuts)
        except NoCut:
            return 0

    def end(self) -> None:
        """Let everything come to its end."""
        for name, start in (("capture", self.capture), ("sync", self.sync), ("capture", self.capture), ("sync", self.sync)):
            process = start("--once")
            try:
                code = process.wait(PATIENCE_S)
            finally:
                process.kill()
                process.wait()
            if name == "sync" and code == 1 and "stands still" in self.said(name):
                self.done["syncs that end with a table that stands still"] += 1
            elif code != 0:
                self.wrong.append(f"{name} --once ended with {code}: {self.said(name)}")

    def said(self, name: str, last: int = 1500) -> str:
        return (self.folder / f"{name}.log").read_text()[-last:]

    # --- The judge ------------------------------------------------------------------------------------------------------------------

    def judge(self) -> Counter[str]:
        seen = Counter[str]()
        try:
            cuts = kept_cuts(self.into).cuts
        except NoCut:
            self.wrong.append("there is no cut at all")
            return seen
        last, read = len(self.history.tables), dict[str, tuple[TableVersion, pa.Table]]()
        for cut in cuts:
            place = cut.places[self.source.producer]
            count, tables = self.history.at(self.source.place_of(place))
            found = penstock.at_cut(self.into, cut.number)
            seen["cuts"] += 1
            gone = dict.fromkeys(self.history.names(count) - tables.keys(), EMPTY) if self.source.empties else {}
            for folder in sorted(cut.tables):
                wanted = tables.get(folder) or gone.get(folder)
                if wanted is None:
                    self.wrong.append(f"cut {cut.number} at {place} ({count} of {last}) names {folder}, which is not captured then")
                    continue
                seen["tables of cuts"] += 1
                seen["rows of cuts"] += len(wanted.rows)
                version = cut.tables[folder]
                if folder not in read or read[folder][0] != version:
                    read[folder] = version, self.source.shown(found[folder])
                if (problem := difference(wanted, read[folder][1])) is not None:
                    self.wrong.append(
                        f"cut {cut.number} at {place} ({count} of {last}): {folder}: {problem}; {self.history.told(folder, count, read[folder][1])}"
                    )
            for folder in tables.keys() - cut.tables.keys():
                seen["tables that cuts leave out" if folder in cut.incomplete else "tables that cuts do not know yet"] += 1
        newest, final = cuts[-1], self.history.tables[-1]
        found = penstock.at_cut(self.into, newest.number)
        for folder, wanted in sorted(final.items()):
            if folder not in newest.tables:
                self.without_target(folder, wanted, newest, seen)
            elif (problem := difference(wanted, self.source.shown(found[folder]))) is not None:
                self.wrong.append(f"in the end {folder}: {problem}")
            else:
                seen["equal in the end"] += 1
        return seen

    def without_target(self, folder: str, wanted: Table, newest: Cut, seen: Counter[str]) -> None:
        """Whether a table may be missing from the last cut."""
        if folder in newest.incomplete:
            seen["stopped in the end"] += 1
            print("stopped:", folder, newest.incomplete[folder])
        elif not wanted.rows:  # those that it had may have gone before it was read
            seen["without a row in the end"] += 1
        else:
            self.wrong.append(f"in the end {folder} is not there, and nobody says why")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--source", choices=KINDS, default="postgres")
    parser.add_argument(
        "--publication", choices=PUBLICATIONS, default="all", help="PostgreSQL: of what it is; tables and schemas go in and out"
    )
    parser.add_argument("--slow", action="store_true", help="PostgreSQL: with a synchronous standby that is slow")
    parser.add_argument("--keep", help="a folder that is kept")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(options.keep or made)
        folder.mkdir(exist_ok=True)
        with source(options.source, folder, chance, publication=options.publication, slow=options.slow) as given:
            campaign = Campaign(given, folder, chance)
            campaign.play(options.transactions)
        seen = campaign.judge()
    print("committed:", campaign.committed, dict(campaign.done))
    print("killed:", dict(campaign.killed))
    print(dict(seen))
    for one in campaign.wrong:
        print("WRONG:", one)
    sys.exit(1 if campaign.wrong else 0)


if __name__ == "__main__":
    main()
