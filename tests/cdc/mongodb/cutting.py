"""Cuts of a MongoDB whose writers never rest, beneath captures and syncs that are killed: at each all collections are as of one transaction.

python -m tests.cdc.mongodb.cutting --cuts 250
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import penstock
from penstock.cdc.cuts.cut_history import kept_cuts
from penstock.cdc.mongodb.positions import ClusterTime
from tests.cdc.cuts.runs import CutRun
from tests.cdc.mongodb.judge import Told, found_in, told_by
from tests.cdc.mongodb.kill_source import MongoSource
from tests.cdc.mongodb.writers import ACCOUNTS, BALANCE, IMAGED
from tests.mongodb_server import mongodb_server

CAPTURE = "mongodb/penstock"


@dataclass
class Played:
    """What was seen."""

    cuts: int
    checked: int
    transactions: int
    kills: int


def play(
    folder: Path, chance: random.Random, *, cuts: int, rounds: int, draw: int, tell: Callable[[str], None] = lambda line: None
) -> Played:
    """Let writers go on until there are so many cuts and rounds, and judge cuts that are drawn."""
    with mongodb_server() as server:
        source = MongoSource(server, imaged=True)
        first = found_in(server)
        run = CutRun(source, folder, chance)
        with source.written(run):
            played = 0
            while played < rounds or run.newest() < cuts:
                run.round(source.points_of_stream[:3], chance.randint(1, max(1, 2 * cuts // rounds)))
                played += 1
                tell(f"{run.newest()} cuts, {run.killed.total()} kills")
        run.finish()
        return judged(run, told_by(server, source.begin), first, chance, draw)


def judged(run: CutRun, told: list[Told], first: dict[str, dict[str, str]], chance: random.Random, draw: int) -> Played:
    """Compare cuts with what the server's own stream makes of the documents that were there first."""
    kept = kept_cuts(str(run.into)).cuts
    places = [ClusterTime(*map(int, cut.places[CAPTURE].split(":"))) for cut in kept]
    assert places == sorted(places)
    drawn = {*chance.sample(range(len(kept)), min(draw, len(kept))), len(kept) - 1}
    model = {name: dict(first.get(name, {})) for name in IMAGED}
    behind = iter(told)
    change = next(behind, None)
    for number in sorted(drawn):
        while change is not None and change.time <= places[number]:
            assert change.identity is not None
            if change.op == "d":
                model[change.collection].pop(change.identity, None)
            else:
                assert change.document is not None
                model[change.collection][change.identity] = change.document
            change = next(behind, None)
        cut = penstock.at_cut(run.into, kept[number].number)
        found = {name: {row["_id"]: row["document"] for row in cut[name].to_pylist()} for name in IMAGED if name in cut}
        assert {name: rows for name, rows in found.items() if rows} == {name: rows for name, rows in model.items() if rows}, (
            number,
            places[number],
        )
        assert sum(json.loads(account)["balance"] for account in found["accounts"].values()) == ACCOUNTS * BALANCE
    assert change is None, "the newest cut has all"
    transactions = sum(one.collection == "ledger" for one in told)
    return Played(len(kept), len(drawn), transactions, run.killed.total())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-cutting-") as folder:
        seen = play(
            Path(folder),
            random.Random(given.seed),
            cuts=given.cuts,
            rounds=given.rounds,
            draw=given.cuts,
            tell=lambda line: print(line, flush=True),
        )
    print(
        f"{seen.transactions:,} transactions, {seen.cuts:,} cuts, {seen.checked:,} drawn and equal to the source; {seen.kills} kills"
    )


if __name__ == "__main__":
    main()
