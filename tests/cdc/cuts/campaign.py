"""Cuts of a shop that never closes, beneath captures and syncs that are killed again and again: at each cut all tables are as of one place.

python -m tests.cdc.cuts.campaign --cuts 1000 --seed 7 [--source mariadb]
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import penstock
from penstock.cdc.cuts.cut import Cut, NoCut
from penstock.cdc.cuts.cut_history import kept_cuts
from tests.cdc.cuts.shop import TABLES, Done, Judge, Place, Shoppers, check_books, sums_of, transactions_in
from tests.cdc.cuts.sources import KINDS, Source, source
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

PATIENCE_S = 180.0
OF_SYNC = tuple(
    f"{moment} {step}"
    for step, moments in {
        "read": ("before", "after"),
        "fold": ("after",),
        "create": ("after",),
        "merge": ("before", "in", "after"),
        "progress": ("before", "in", "after"),
        "cut": ("before", "after"),
    }.items()
    for moment in moments
)


@dataclass
class Played:
    """What a campaign has seen."""

    cuts: int = 0
    checked: int = 0
    with_snapshot: int = 0
    """Cuts whose sums were compared with a snapshot of the server's own."""
    transactions: int = 0
    killed: Counter[str] = field(default_factory=Counter)


class Shop:
    """One database, one topic and one folder of targets, with a process for the capture and one for the sync."""

    def __init__(self, source: Source, folder: Path, chance: random.Random) -> None:
        self.source, self.folder, self.chance = source, folder, chance
        self.lake, self.into = str(folder / "lake"), str(folder / "into")
        self.snapshots: dict[Place, Done] = {}
        self.killed = Counter[str]()

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [*die_with_parent(), sys.executable, "-m", *arguments]
        environment = {**os.environ, **self.source.environment()}
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen(command, cwd=ROOT, stdout=errors, stderr=errors, env=environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def capture(self, fatal: str = "never", *options: str) -> tuple[str, ...]:
        where = ("--topic", "changes", "--lake", self.lake, "--heartbeat")
        return (self.source.worker, str(self.folder / "journal"), fatal, "60", *self.source.capture(), *where, *options)

    def sync(self, fatal: str = "never", *once: str) -> tuple[str, ...]:
        return ("tests.cdc.cuts.driver", self.lake, self.into, fatal, str(self.chance.choice((100, 1000))), *once)

    def said(self) -> str:
        return (self.folder / "errors").read_text()[-3000:]

    def newest(self) -> Cut | None:
        try:
            return kept_cuts(self.into, latest_only=True).cuts[-1]
        except NoCut:
            return None

    def look(self, name: str) -> None:
        """A snapshot of the server's own at a place that a cut is made of; writers rest until it is there."""
        place, sums = self.source.snapshot(name)
        self.snapshots[place] = sums
        self.catch_up()

    def round(self, cuts: int) -> None:
        """Both run until there are so many more cuts, or one of them dies at a point; whoever lives is killed then."""
        before = 0 if (newest := self.newest()) is None else newest.number
        fatal = f"{self.chance.choice(self.source.points)}:{self.chance.randint(1, 6)}" if self.chance.random() < 0.5 else "never"
        step = f"{self.chance.choice(OF_SYNC)}:{self.chance.randint(1, 8)}" if self.chance.random() < 0.5 else "never"
        with ExitStack() as stack:
            capture = stack.enter_context(self.process(*self.capture(fatal)))
            sync = stack.enter_context(self.process(*self.sync(step)))

            def is_over() -> bool:
                died = capture.poll() is not None or sync.poll() is not None
                return died or ((newest := self.newest()) is not None and newest.number >= before + cuts)

            wait_until(is_over, f"{cuts} more cuts: {self.said()}", timeout_s=PATIENCE_S)
            for name, process, point in (("capture", capture, fatal), ("sync", sync, step)):
                code = process.poll()
                assert code in (None, -signal.SIGKILL), (code, self.said())
                if code is None:
                    process.send_signal(signal.SIGKILL)
                self.killed[f"{name}, {'any moment' if code is None else point.partition(':')[0]}"] += 1

    def catch_up(self) -> None:
        """Let the targets be what the source is."""
        with self.process(*self.capture("never", "--once")) as capture:
            assert capture.wait(PATIENCE_S) == 0, self.said()
        with self.process(*self.sync("never", "once")) as sync:
            assert sync.wait(PATIENCE_S) == 0, self.said()


def play(
    folder: Path,
    chance: random.Random,
    *,
    cuts: int,
    rounds: int,
    looks: int,
    draw: int,
    kind: str = "postgres",
    tell: Callable[[str], None] = lambda line: None,
) -> Played:
    """Let a shop run until there are so many cuts and rounds, and judge cuts that are drawn. What was seen."""
    with source(kind) as given:
        shop = Shop(given, folder, chance)
        with shop.process(*shop.capture(f"{given.begun}:1")) as capture:
            assert capture.wait(PATIENCE_S) == -signal.SIGKILL, shop.said()
        given.watch()
        shoppers = Shoppers(given.connect, given.id_of, count=2, seed=chance.randrange(10_000))
        with shoppers.shopping():
            played = 0
            while played < rounds or (newest := shop.newest()) is None or newest.number < cuts:
                shop.round(chance.randint(1, max(1, 2 * cuts // rounds)))
                assert shoppers.lives
                if played * looks >= len(shop.snapshots) * rounds and len(shop.snapshots) < looks:
                    with shoppers.resting():
                        shop.look(f"look_{played}")
                played += 1
                tell(f"{'no' if (newest := shop.newest()) is None else newest.number} cuts, {shop.killed.total()} kills")
        shop.catch_up()
        judge = Judge(given.ends(), shop.snapshots, frozenset(ids_in(given)))
    return judged(shop, judge, chance, draw)


def ids_in(given: Source) -> list[int]:
    """All transactions of the ledger."""
    connection = given.connect()
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT xid FROM ledger")
        return [one for (one,) in cursor.fetchall()]
    finally:
        connection.close()


def judged(shop: Shop, judge: Judge, chance: random.Random, draw: int) -> Played:
    """Compare drawn cuts, and the newest, with what the server says."""
    kept = kept_cuts(shop.into).cuts
    seen = Played(len(kept), transactions=len(judge.all), killed=shop.killed)
    places = [shop.source.place_of(cut.places[shop.source.name]) for cut in kept]
    assert places == sorted(places)
    by_snapshot = [number for number, place in enumerate(places) if judge.same_as(place)]
    drawn = {*chance.sample(range(len(kept)), min(draw, len(kept))), *by_snapshot[-draw:], len(kept) - 1}
    for number in sorted(drawn):
        found = penstock.at_cut(shop.into, kept[number].number)
        assert sorted(found) == sorted(TABLES), (found, found.cut.incomplete)
        tables = dict(found)
        check_books(tables)
        assert transactions_in(tables["ledger"]) == judge.until(places[number]), f"cut {kept[number].number} at {places[number]}"
        seen.checked += 1
        if of_server := judge.same_as(places[number]):
            assert set(of_server) == {sums_of(tables)}
            seen.with_snapshot += 1
    assert transactions_in(penstock.at_cut(shop.into)["ledger"]) == judge.all
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--source", choices=KINDS, default="postgres", help="mysql: see tests/mysql_server.py")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-cuts-") as folder:
        chance = random.Random(given.seed)
        seen = play(
            Path(folder),
            chance,
            cuts=given.cuts,
            rounds=given.rounds,
            looks=20,
            draw=given.cuts,
            kind=given.source,
            tell=lambda line: print(line, flush=True),
        )
    print(f"{seen.transactions:,} transactions, {seen.cuts:,} cuts, {seen.checked:,} drawn and equal to the source;")
    print(f"{seen.with_snapshot:,} of them compared with a snapshot of the server's own. Killed:")
    for who, times in sorted(seen.killed.items()):
        print(f"  {who:32} {times:4}")


if __name__ == "__main__":
    main()
