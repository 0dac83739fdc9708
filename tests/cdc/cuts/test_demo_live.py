"""`make demo-live` as users run it, and what its judge finds wrong."""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest

from tests.tree import ROOT

RUN_S = 300.0
books, demo, processes, proof = (
    importlib.import_module(f"examples.live.{name}") for name in ("books", "demo", "processes", "proof")
)
COMMAND = [sys.executable, "-m", "examples.live"]


def shop() -> dict[str, list[tuple[Any, ...]]]:
    """Two orders, of which one is paid."""
    return {
        "articles": [(1, "kettle", Decimal("9.50"), books.STOCK - 3)],
        "customers": [(1, "ann", Decimal("19.00"))],
        "orders": [(1, 1, "paid", Decimal("19.00")), (2, 1, "open", Decimal("9.50"))],
        "order_lines": [(1, 1, 1, 2, Decimal("9.50")), (2, 1, 1, 1, Decimal("9.50"))],
        "payments": [(1, 1, Decimal("19.00"))],
        "ledger": [(1, "order", Decimal(0)), (2, "order", Decimal(0)), (3, "paid", Decimal("19.00"))],
    }


def seen(place: int, rows: dict[str, list[tuple[Any, ...]]]) -> Any:
    return proof.Seen(place, str(place), books.fingerprints(rows))


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("articles", []),
        ("customers", ["orders of no customer: 2"]),
        ("orders", ["lines of no order: 2", "payments of no order: 1", "customers who spent other than they paid: 1"]),
        ("order_lines", ["orders that differ from their lines: 2", "articles whose stock is wrong: 1"]),
        ("payments", ["orders that differ from what was paid: 1", "customers who spent other than they paid: 1"]),
        ("ledger", ["the ledger differs from what was paid"]),
    ],
)
def test_a_table_that_is_of_another_moment_breaks_the_books(table: str, what: list[str]) -> None:
    assert books.broken(shop()) == []
    found = books.broken({**shop(), table: []})
    assert [one for one in found if one in what] == what


def test_rows_that_differ_are_told() -> None:
    source = [(1, "ann", Decimal(1)), (2, "bob", Decimal(2)), (3, "cid", Decimal(3))]
    target = [(1, "ann", Decimal("1.00")), (2, "bob", Decimal(5)), (4, "dan", Decimal(4))]
    assert books.differences("customers", source, source[::-1]) == []
    assert books.differences("customers", source, target) == [
        "customers 2: (2, bob, 2.00) at the source, (2, bob, 5.00) in the table",
        "customers 3: (3, cid, 3.00) at the source, no row in the table",
        "customers 4: no row at the source, (4, dan, 4.00) in the table",
    ]


def test_a_cut_is_proved_by_a_snapshot_between_the_same_transactions() -> None:
    before = {**shop(), "ledger": shop()["ledger"][:2]}
    later = {**shop(), "ledger": [*shop()["ledger"], (4, "more", Decimal(0))]}
    snapshots = [seen(10, before), seen(21, shop()), seen(30, later)]
    proved = proof.prove(1, 20, "20", shop(), snapshots)
    assert (proved.is_proved, proved.snapshot.place) == (True, 21)
    unmet = proof.prove(1, 20, "20", shop(), [snapshots[0], snapshots[2]])
    assert (unmet.holds, unmet.is_proved) == (True, False)
    assert proof.prove(1, 5, "5", shop(), snapshots[:1]).misplaced, "it has what was committed later"
    assert proof.prove(1, 31, "31", shop(), snapshots[2:]).misplaced, "it lacks what was committed before"


def test_a_cut_that_differs_in_a_row_is_found_out() -> None:
    other = {**shop(), "customers": [(1, "eve", Decimal("19.00"))]}
    found = proof.prove(1, 20, "20", other, [seen(20, shop())])
    assert (found.broken, found.unequal, found.holds) == ([], ["customers"], False)


def test_a_run_whose_cuts_met_no_snapshot_has_proved_nothing() -> None:
    proved, unmet = (proof.prove(1, 20, "20", shop(), snapshots) for snapshots in ([seen(20, shop())], []))
    facts: dict[str, Any] = {one.name: 0 for one in fields(demo.Outcome)}
    facts |= {"differences": {"orders": []}}
    assert demo.Outcome(**{**facts, "proofs": [unmet, proved]}).well
    assert not demo.Outcome(**{**facts, "proofs": [unmet]}).well


@dataclass
class SoldLate:
    """A source with a till whose last transaction commits only after the demo has looked whether all is there."""

    name: str = "a database"
    lost: type[Exception] = ConnectionError
    entries: list[tuple[Any, ...]] = field(default_factory=lambda: list(shop()["ledger"]))
    shown: threading.Event = field(default_factory=threading.Event)

    def trade(self, _source: Any, _sales: Any, closed: threading.Event, *, number: int, **_: Any) -> None:
        if number == 0:
            closed.wait()
            self.shown.wait()
            self.entries.append((4, "late", Decimal(0)))

    def show(self, state: Any) -> None:
        if not state.is_open:
            self.shown.set()

    def snapshot(self) -> Any:
        return SimpleNamespace(place=len(self.entries), place_text="here", rows=self.rows())

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        return {**shop(), "ledger": list(self.entries)}

    def at_cut(self, _into: Path, number: int = 1) -> Any:
        if len(self.entries) == len(shop()["ledger"]):
            return None
        rows = self.rows()
        return SimpleNamespace(number=number, place=str(len(rows["ledger"])), committed_s=None, rows=rows)

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()

    def capture(self) -> list[str]:
        return []

    def place(self) -> str:
        return "here"

    def order(self, place: str) -> int:
        return int(place)


def test_what_a_till_sells_at_the_last_moment_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SoldLate()
    given = {"build": lambda *_: None, "trade": source.trade, "Service": MagicMock(), "PATIENCE_S": 2.0, "LOOK_EVERY_S": 0.01}
    for name, value in {**given, "SHOW_EVERY_S": 0.01}.items():
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr(demo.penstock, "connect", lambda _: nullcontext(SimpleNamespace(topics=lambda: [demo.lakes.TOPIC])))
    for name, value in {"at_cut": source.at_cut, "newest": lambda _: source.rows(), "events": lambda _: 0}.items():
        monkeypatch.setattr(demo.lakes, name, value)
    plan = demo.Plan(seconds=0.01, rate=1.0, kill_every_s=0.0, seed=1)
    outcome = demo.Demo(source, "lake", tmp_path, tmp_path, plan, show=source.show, say=lambda _: None).run()
    assert (outcome.well, outcome.rows["ledger"]) == (True, 4)


def test_both_are_killed_while_the_shop_is_open() -> None:
    plan = processes.kills(45.0, 6.0, random.Random(1))
    assert [kill.service for kill in plan] == ["capture", "sync", "capture"] * 2 + ["capture"]
    assert all(0 < kill.at_s < 45 for kill in plan)
    assert {kill.service for kill in processes.kills(1.0, 6.0, random.Random(1))} == {"capture", "sync"}
    assert processes.kills(45.0, 0.0, random.Random(1)) == []


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a database's user may see, too: pytest's own are of whoever runs the tests."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "TMPDIR": str(folder), **environment}
    return subprocess.run([*COMMAND, *words], cwd=ROOT, env=given, capture_output=True, text=True, timeout=RUN_S, check=False)


@pytest.mark.slow
def test_what_is_missing_or_in_the_way_is_told(tmp_path: Path) -> None:
    missing = run(tmp_path, PENSTOCK_POSTGRES_BIN="/nowhere")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("✗ there is no PostgreSQL here in /nowhere. `make postgres` installs one")
    (tmp_path / "lake" / "other").mkdir(parents=True)
    taken = run(tmp_path, "--lake", str(tmp_path / "lake"))
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "--lake takes a new folder" in taken.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["lake"]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.processes
@pytest.mark.timeout(RUN_S)
def test_a_shop_is_captured_beneath_kills_and_its_cuts_are_proved(folder: Path) -> None:
    told = run(folder, "--seconds", "4", "--kill-every", "2", "--seed", "5", "--json", "--lake", str(folder / "lake"))
    assert told.returncode == 0, told.stdout + told.stderr
    found = json.loads(told.stdout)
    assert found["equal"]
    assert found["broken_at_cuts"] == 0
    assert found["kills"] == {"capture": 1, "sync": 1}
    assert found["proofs"][-1]["proved"], found["proofs"][-1]
    assert all(one["holds"] for one in found["proofs"])
    assert not any(found["differences"].values())
    assert sorted(one.name for one in (folder / "lake").iterdir()) == ["lake", "tables"]
    assert [one.name for one in folder.iterdir()] == ["lake"], "temporary files are left"
    running = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    assert [one for one in running if str(folder) in one] == [], "processes are left"
