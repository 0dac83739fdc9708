"""`penstock sync`: wrong calls, and one run of Spark that is told to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import connect
from penstock.infra.cli.changes import sync
from tests.cdc.sync.streams import TOPIC, event, rows, send
from tests.infra.cli.conftest import Penstock


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "Where to? Give --into URL."),
        (["--into", "x", "--column", "amount=int"], "--column is TABLE.COLUMN=TYPE, not 'amount=int'."),
        (["--into", "x", "--key", "orders"], "--key is TABLE=COLUMN,…, not 'orders'."),
    ],
)
def test_a_wrong_call_is_explained_before_spark_starts(penstock: Penstock, given: list[str], told: str) -> None:
    assert told in penstock("sync", TOPIC, *given, code=2).err


def test_a_sync_that_never_ran_has_no_status(penstock: Penstock, lake: Path) -> None:
    with connect(lake) as opened:
        opened.create_topic(TOPIC, queues=1)
    assert "there is no such sync of this topic" in penstock("sync", TOPIC, "--status", code=2).err


@pytest.mark.processes
def test_a_sync_that_is_killed_from_outside_says_so_and_what_to_do(
    penstock: Penstock, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a machine does that has no memory left."""
    with connect(lake) as opened:
        opened.create_topic(TOPIC, queues=1)
    killed = "import os, sys; sys.stdin.readline(); print('much', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(sync, "_PROGRAM", (sys.executable, "-c", killed))
    said = penstock("sync", TOPIC, "--into", tmp_path / "t", code=3).err
    for part in (
        "the sync's process ended before its work",
        str(tmp_path / "t"),
        "ended by SIGKILL: much",
        "was the machine out of memory?",
    ):
        assert part in said


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_it_runs_until_told_to_end_and_its_status_names_what_stands_still(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    into = tmp_path / "targets"
    events = [
        event("c", "bills", {"id": 1}, {"id": 1, "amount": "1.00"}),
        event("c", "bills", {"id": 2}, {"id": 2, "amount": "much"}),
        event("c", "lines", {"id": 1}, {"id": 1, "n": 1}),
    ]
    send(str(lake), events, queues=1)
    command = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')", "sync", TOPIC]
    options = ["--into", str(into), "--column", "bills.amount=decimal(12,2)", "--interval", "0.2s", "--json"]
    environment = {**os.environ, "PENSTOCK_LAKE": str(lake)}
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        batch = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        end, told = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM, told.decode()
    assert (batch["kind"], batch["events"], batch["merged"]) == ("batch", 3, {"bills": 1, "lines": 1})
    bytes_are = "if these are bytes, as decimal.handling.mode=precise writes them, declare 'decimal(12,2) from base64'"
    stop = {"queue": 0, "offset": 1, "reason": f"column amount: 'much' does not fit decimal(12,2): {bytes_are}"}
    assert json.loads(end) == {
        "kind": "end",
        "batches": 1,
        "events": 3,
        "rejected": {},
        "nulled": {},
        "stopped": {"public.bills": [stop]},
        "unmatched": [],
        "cuts": False,
        "cut": None,
        "places": {},
    }
    assert rows(into / "lines") == [{"id": 1, "n": 1}]
    (status,) = penstock("sync", TOPIC, "--status", "--json", code=1).rows
    assert (status["lag"], status["tables"], status["stopped"]) == (0, ["bills", "lines"], {"public.bills": [stop]})
    assert "public.bills stands still at queue 0, offset 1" in penstock("sync", TOPIC, "--status", code=1).err
