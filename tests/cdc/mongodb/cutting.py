"""Cuts of a MongoDB whose writers never rest, beneath captures and syncs that are killed: at each all collections are as of one transaction.

python -m tests.cdc.mongodb.cutting --cuts 250
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import penstock
from penstock.cdc.cuts.cut import NoCut
from penstock.cdc.cuts.cut_history import kept_cuts
from penstock.cdc.mongodb.positions import ClusterTime
from tests.cdc.cuts.campaign import OF_SYNC
from tests.cdc.mongodb.judge import Told, begun_at, found_in, told_by
from tests.cdc.mongodb.killing import BEGINNING, OF_STREAM, PATIENCE_S, Run
from tests.cdc.mongodb.writers import ACCOUNTS, BALANCE, IMAGED, Writers, load
from tests.mongodb_server import mongodb_server
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until

CAPTURE = "mongodb/penstock"


@dataclass
class Played:
    """What was seen."""

    cuts: int
    checked: int
    transactions: int
    kills: int


class Cutting(Run):
    """The capture, and a sync beside it."""

    @property
    def into(self) -> Path:
        return self.folder / "into"

    @contextmanager
    def sync(self, fatal: str = "never", *once: str) -> Iterator[subprocess.Popen[bytes]]:
        batch = str(self.chance.choice((100, 1000)))
        command = [
            *die_with_parent(),
            sys.executable,
            "-m",
            "tests.cdc.cuts.driver",
            self.lake,
            str(self.into),
            fatal,
            batch,
            *once,
        ]
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen(command, cwd=ROOT, stdout=errors, stderr=errors)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def newest(self) -> int:
        try:
            return kept_cuts(str(self.into), latest_only=True).cuts[-1].number
        except NoCut:
            return 0

    def round(self, cuts: int) -> None:
        """Both run until there are so many more cuts, or one of them dies at a point; whoever lives is killed then."""
        before = self.newest()
        fatal = f"{self.chance.choice(OF_STREAM[:3])}:{self.chance.randint(1, 6)}" if self.chance.random() < 0.5 else "never"
        step = f"{self.chance.choice(OF_SYNC)}:{self.chance.randint(1, 8)}" if self.chance.random() < 0.5 else "never"
        with self.process(fatal) as capture, self.sync(step) as sync:

            def is_over() -> bool:
                return capture.poll() is not None or sync.poll() is not None or self.newest() >= before + cuts

            wait_until(is_over, f"{cuts} more cuts: {self.said()}", timeout_s=PATIENCE_S)
            for name, process in (("capture", capture), ("sync", sync)):
                assert process.poll() in (None, -signal.SIGKILL), self.said()
                process.send_signal(signal.SIGKILL)
                self.killed[name, "any moment or a point"] += 1

    def finish(self) -> None:
        super().finish()
        with self.sync("never", "once") as process:
            assert process.wait(PATIENCE_S) == 0, self.said()


def play(
    folder: Path, chance: random.Random, *, cuts: int, rounds: int, draw: int, tell: Callable[[str], None] = lambda line: None
) -> Played:
    """Let writers go on until there are so many cuts and rounds, and judge cuts that are drawn."""
    with mongodb_server() as server:
        load(server)
        run = Cutting(server, folder, chance)
        run.die_at(BEGINNING)
        begin, first = begun_at(run.lake), found_in(server)
        writers = Writers(server, count=2, seed=chance.randrange(10_000), imaged=True)
        writers.start()
        played = 0
        try:
            while played < rounds or run.newest() < cuts:
                run.round(chance.randint(1, max(1, 2 * cuts // rounds)))
                played += 1
                tell(f"{run.newest()} cuts, {run.killed.total()} kills")
        finally:
            writers.stop()
        run.finish()
        told = told_by(server, begin)
        return judged(run, told, first, chance, draw)


def judged(run: Cutting, told: list[Told], first: dict[str, dict[str, str]], chance: random.Random, draw: int) -> Played:
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
