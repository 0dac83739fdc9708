"""`penstock sync --retype`: what it says, asks and does, and the sync that goes on."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from shlex import split
from shutil import copytree, rmtree
from typing import Any

import pytest

from penstock.infra.cli.changes.retype import _UNTOLD
from tests.cdc.retype.older import TYPES, applied, bill, files, keep
from tests.cdc.sync.streams import TOPIC, event, group_for, rows, send, with_schema
from tests.infra.cli.conftest import Penstock

pytestmark = pytest.mark.processes

SYNC = ["--engine", "deltalake", "--once"]
NOTED = """\
public.bills: {rows} rows in {files} files {done}
  amount: string -> decimal(12,2)
  day: string -> date
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each test's lake and targets are: a sync knows its targets by their path."""
    return tmp_path_factory.mktemp("retype") / "work"


@pytest.fixture(scope="module")
def older(work: Path) -> Path:
    """A lake, and targets of an older release, with events since that name their types."""
    lake, into = str(work / "lake"), work / "targets"
    send(lake, [bill(1, at=1), event("c", "other", {"id": 1}, {"id": 1}, at=2)], queues=1)
    applied(lake, into)
    keep(lake, TYPES)
    send(lake, [bill(2, at=3, types=TYPES)], queues=1)
    applied(lake, into)
    return Path(copytree(work, work.with_name("kept")))


@pytest.fixture
def lake(work: Path) -> Iterator[Path]:
    yield work / "lake"
    rmtree(work)


@pytest.fixture
def into(older: Path, work: Path, lake: Path) -> Path:
    """The targets, as they were made, beside their lake."""
    rmtree(work, ignore_errors=True)
    copytree(older, work)
    return work / "targets"


def test_it_says_what_it_would_do_and_does_nothing_unasked(penstock: Penstock, into: Path) -> None:
    before = files(into)
    said = penstock("sync", TOPIC, "--into", into, "--retype", "--dry-run")
    assert said.out == NOTED.format(rows=2, files=len(list((into / "bills").glob("*.parquet"))), done="would be rewritten") + (
        f"public.other: stays as it is: {_UNTOLD}\n"
    )
    refused = penstock("sync", TOPIC, "--into", into, "--retype", code=1)  # nobody answers
    assert "public.bills: 2 rows" in refused.err
    assert "Go on?" in refused.err
    assert files(into) == before


def test_it_rewrites_and_the_sync_goes_on(penstock: Penstock, lake: Path, into: Path) -> None:
    said = penstock("sync", TOPIC, "--into", into, "--retype", "--yes", "--column", "other.id=int")
    assert "are rewritten, as version " in said.out
    assert "public.other: 1 rows in 1 files are rewritten" in said.out
    assert rows(into / "bills")[0]["amount"] == Decimal("1.50")
    again = penstock("sync", TOPIC, "--into", into, "--retype", "--json")
    assert [(one["table"], one["changes"], one["version"]) for one in again.rows] == [
        ("public.bills", [], None),
        ("public.other", [], None),
    ]
    send(str(lake), [bill(3, "7.00", at=4, types=TYPES)], queues=1)
    assert penstock("sync", TOPIC, "--into", into, *SYNC).out == "1 events in 1 batches.\n"
    assert rows(into / "bills")[2]["amount"] == Decimal("7.00")


@pytest.mark.thorough
def test_the_line_that_a_stopped_table_says_is_the_line_to_run(penstock: Penstock, lake: Path, into: Path) -> None:
    penstock("sync", TOPIC, "--into", into, "--retype", "--yes")
    send(str(lake), [bill(3, "NaN", at=4, types=TYPES)], queues=1)
    said = penstock("sync", TOPIC, "--into", into, *SYNC, code=1).err
    line = said.rpartition("has not: penstock ")[2].strip()
    assert line == f"sync {TOPIC} --lake {lake} --into {into} --retype --table public.bills --column public.bills.amount=string"
    penstock(*line.split(), "--yes")
    penstock("sync", TOPIC, "--into", into, *SYNC)
    assert [row["amount"] for row in rows(into / "bills")] == ["1.50", "1.50", "NaN"]


def test_the_line_has_the_types_that_events_say_themselves_once_for_all_queues(
    penstock: Penstock, lake: Path, tmp_path: Path
) -> None:
    """As Debezium's events with schemas do, whose source has no catalogue in the lake."""
    into = tmp_path / "targets"
    number, price = {"type": "int32"}, {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}

    def row(key: int, count: int, cents: int, **said: Any) -> dict[str, Any]:
        unscaled = b64encode(cents.to_bytes(8, "big")).decode()
        types = {"id": number, "n": number, "p": price | {"parameters": {"scale": "2", "connect.decimal.precision": "8"}}, **said}
        return with_schema(event("c", "t", {"id": key}, {"id": key, "n": count, "p": unscaled}, at=key), **types)

    send(str(lake), [row(key, key, 100 * key) for key in range(4)], groups=list("0123"))
    penstock("sync", TOPIC, "--into", into, *SYNC)
    wider = {"n": {"type": "int64"}, "p": price | {"parameters": {"scale": "2", "connect.decimal.precision": "12"}}}
    send(
        str(lake),
        [row(4, 2**40, 100, **wider), row(5, 1, 10**11, **wider)],
        groups=[group_for(queue, 2) for queue in range(2)],
    )
    said = penstock("sync", TOPIC, "--into", into, *SYNC, code=1).err
    (line,) = (words.partition(": penstock ")[2] for words in said.splitlines() if ": penstock " in words)
    assert "The source's column calls for bigint, the target's has int" in said
    assert "The source's column calls for decimal(12,2), the target's has decimal(8,2)" in said
    penstock(*split(line), "--yes")
    penstock("sync", TOPIC, "--into", into, *SYNC)
    assert [(row["n"], row["p"]) for row in rows(into / "t")][4:] == [(2**40, 1), (1, Decimal(10**9))]


def test_a_value_that_does_not_fit_is_named_and_the_exit_code_tells(penstock: Penstock, lake: Path, into: Path) -> None:
    send(str(lake), [bill(3, "much", at=4)], queues=1)
    penstock("sync", TOPIC, "--into", into, *SYNC)
    said = penstock("sync", TOPIC, "--into", into, "--retype", "--yes", "--json", code=1)
    assert "row id=3: column amount: 'much' does not fit decimal(12,2)" in json.loads(said.out.splitlines()[0])["refused"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--yes"], "--yes belongs to --retype."),
        (["--retype", "--table", "bils", "--yes"], "the sync has no such table"),
        (["--retype", "--name", "another", "--yes"], "there is no such sync of this topic"),
        (["--retype", "--column", "bills.amount=money", "--yes"], "this is no type that a column of a target can have"),
    ],
)
def test_what_cannot_be_done(penstock: Penstock, into: Path, options: list[str], why: str) -> None:
    assert why in penstock("sync", TOPIC, "--into", into, *options, code=2).err
