"""Cuts of a shop that never closes, beneath captures and syncs that are killed again and again: at each cut all tables are as of one place.

python -m tests.cdc.cuts.campaign --cuts 1000 --seed 7 [--source mariadb]
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import penstock
from penstock.cdc.cuts.cut_history import kept_cuts
from tests.cdc.cuts.runs import CutRun
from tests.cdc.cuts.shop import TABLES, Done, Judge, Place, Shoppers, check_books, sums_of, transactions_in
from tests.cdc.cuts.sources import KINDS, Source, source


@dataclass
class Played:
    """What a campaign has seen."""

    cuts: int = 0
    checked: int = 0
    with_snapshot: int = 0
    """Cuts whose sums were compared with a snapshot of the server's own."""
    transactions: int = 0
    killed: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass
class Shop(CutRun):
    """A shop's database."""

    source: Source
    snapshots: dict[Place, Done] = field(default_factory=dict)

    def look(self, name: str) -> None:
        """A snapshot of the server's own at a place that a cut is made of; writers rest until it is there."""
        place, sums = self.source.snapshot(name)
        self.snapshots[place] = sums
        self.finish()


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
        shop.die_at(f"{given.begun}:1")
        given.watch()
        shoppers = Shoppers(given.connect, given.id_of, count=2, seed=chance.randrange(10_000))
        with shoppers.shopping():
            played = 0
            while played < rounds or shop.newest() < cuts:
                shop.round(given.points, chance.randint(1, max(1, 2 * cuts // rounds)))
                assert shoppers.lives
                if played * looks >= len(shop.snapshots) * rounds and len(shop.snapshots) < looks:
                    with shoppers.resting():
                        shop.look(f"look_{played}")
                played += 1
                tell(f"{shop.newest()} cuts, {shop.killed.total()} kills")
        shop.finish()
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
    kept = kept_cuts(str(shop.into)).cuts
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
        print(f"  {', '.join(who):32} {times:4}")


if __name__ == "__main__":
    main()
