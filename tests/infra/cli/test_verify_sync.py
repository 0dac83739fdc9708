"""`penstock verify-sync`: dumps and Delta tables on local files and on S3, what is printed, and how it ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from penstock.cdc.delta.location import Location
from tests.infra.cli.conftest import Penstock
from tests.servers import S3Server

ROWS: list[dict[str, Any]] = [
    {"id": 1, "amount": Decimal("10.50"), "note": "ß", "at": datetime(2026, 11, 20, 12, tzinfo=UTC)},
    {"id": 2, "amount": Decimal("0.00"), "note": "", "at": None},
    {"id": 3, "amount": None, "note": None, "at": None},
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("amount", pa.decimal128(12, 2)),
        ("note", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("__position", pa.int64()),
    ]
)
CSV = 'id,amount,note,at\n3,,,\n1,10.5,ß,2026-11-20 13:00:00+01\n2,0,"",\n'
METADATA = {
    "topic": "t",
    "life": 0,
    "name": "t",
    "source": ["public", "bills"],
    "key": ["id"],
    "history": False,
    "offsets": {"0": 3},
    "truncated": None,
}


def write(path: Path | str, rows: list[dict[str, Any]], *, synced: bool = False, options: dict[str, str] | None = None) -> None:
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps({"penstock_sync": METADATA})}) if synced else None
    write_deltalake(
        str(path), pa.Table.from_pylist(rows, SCHEMA), mode="overwrite", commit_properties=properties, storage_options=options
    )


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dumps" / "bills.csv"
    path.parent.mkdir()
    path.write_text(CSV)
    return path


def test_equal_tables_end_with_0(penstock: Penstock, dump: Path, tmp_path: Path) -> None:
    write(tmp_path / "targets" / "bills", ROWS)
    said = penstock("verify-sync", dump, tmp_path / "targets" / "bills", "--key", "id").out
    assert said == "bills: equal (3 rows in the source, 3 in the target)\n"
    assert penstock("verify-sync", dump.parent, tmp_path / "targets", "--key", "bills=id").out == said
    (found,) = penstock("verify-sync", dump, tmp_path / "targets", "--key", "id", "--json").rows
    assert (found["equal"], found["source_rows"], found["key"]) == (True, 3, ["id"])


def test_the_key_is_what_the_sync_wrote_down(penstock: Penstock, dump: Path, tmp_path: Path) -> None:
    write(tmp_path / "bills", ROWS, synced=True)
    write(tmp_path / "bills", ROWS)  # somebody's compaction, say
    assert "equal" in penstock("verify-sync", dump, tmp_path / "bills").out


def test_what_differs_is_counted_and_shown_and_ends_with_1(penstock: Penstock, dump: Path, tmp_path: Path) -> None:
    changed = [{**ROWS[0], "amount": Decimal("10.51"), "note": None}, {**ROWS[1], "id": 4}, ROWS[2]]
    write(tmp_path / "bills", changed)
    said = penstock("verify-sync", dump, tmp_path / "bills", "--key", "id", code=1).out
    assert "bills: DIFFERS (3 rows in the source, 3 in the target: 1 missing, 1 extra, 1 different)" in said
    lines = [line.split() for line in said.splitlines()]
    assert ["missing", "id", "2"] in lines
    assert ["extra", "id", "4"] in lines
    assert ["different", "id", "1", "amount", "10.50", "10.51"] in lines
    assert ["note", "'ß'", "NULL"] in lines
    (found,) = penstock("verify-sync", dump, tmp_path / "bills", "--key", "id", "--examples", "0", "--json", code=1).rows
    assert (found["equal"], found["missing"], found["extra"], found["different"], found["differences"]) == (False, 1, 1, 1, [])


def test_json_shows_rows_as_they_are(penstock: Penstock, dump: Path, tmp_path: Path) -> None:
    write(tmp_path / "bills", [{**ROWS[0], "note": "ss"}, *ROWS[1:]])
    (found,) = penstock("verify-sync", dump, tmp_path / "bills", "--key", "id", "--json", code=1).rows
    assert found["differences"] == [{"kind": "different", "key": {"id": 1}, "columns": {"note": ["ß", "ss"]}}]


def test_columns_of_one_side_only(penstock: Penstock, dump: Path, tmp_path: Path) -> None:
    write(tmp_path / "bills", ROWS)
    dump.write_text("id,amount,note,old\n1,10.5,ß,x\n")
    said = penstock("verify-sync", dump, tmp_path / "bills", "--key", "id", code=1).out
    assert "only the source has old" in said
    assert "only the target has at" in said
    dump.write_text("".join(line.rpartition(",")[0] + "\n" for line in CSV.splitlines()))
    penstock("verify-sync", dump, tmp_path / "bills", "--key", "id", "--ignore", "at")


def test_a_table_that_cannot_be_compared_is_named_and_the_others_are_compared(
    penstock: Penstock, dump: Path, tmp_path: Path
) -> None:
    targets = tmp_path / "targets"
    write(targets / "bills", ROWS, synced=True)
    write(targets / "keyless", ROWS)
    for name in ("keyless", "audit", "zones"):
        (dump.parent / f"{name}.csv").write_text(CSV)
    write(targets / "zones", ROWS, synced=True)
    lines = penstock("verify-sync", dump.parent, targets, code=1).out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "audit: NOT COMPARED: there is no such target",
        "bills: equal",
        "keyless: NOT COMPARED: the primary key is not known",
        "zones: equal",
    ]
    found = penstock("verify-sync", dump.parent, targets, "--json", code=1).rows
    assert [(one["table"], one["equal"]) for one in found] == [
        ("audit", False), ("bills", True), ("keyless", False), ("zones", True),
    ]  # fmt: skip


def test_an_empty_text_that_the_source_cannot_tell_from_null(penstock: Penstock, dump: Path, tmp_path: Path) -> None:
    write(tmp_path / "bills", ROWS)
    dump.write_text(CSV.replace('""', ""))
    penstock("verify-sync", dump, tmp_path / "bills", "--key", "id", code=1)
    penstock("verify-sync", dump, tmp_path / "bills", "--key", "id", "--empty-is-null")


def test_json_lines_from_a_pipe_s_file_with_a_format(penstock: Penstock, tmp_path: Path) -> None:
    write(tmp_path / "bills", ROWS)
    (tmp_path / "dump").write_text("".join(json.dumps(row, default=str, ensure_ascii=False) + "\n" for row in ROWS))
    penstock("verify-sync", tmp_path / "dump", tmp_path / "bills", "--key", "id", "--format", "jsonl")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["DUMPS/bills.csv", "NOWHERE"], "there is no such target"),
        (["DUMPS/none.csv", "TARGETS/bills", "--key", "id"], "there is no such file"),
        (["DUMPS/bills.csv", "TARGETS/bills"], "the primary key is not known"),
        (["DUMPS/bills.csv", "TARGETS/bills", "--key", "nr"], "a column of the key is missing"),
        (["DUMPS/bills.csv", "TARGETS/bills", "--key", "id,"], "not a key"),
        (["DUMPS", "TARGETS", "--table", "carts"], "there is no dump of such a table"),
        (["DUMPS/bad.csv", "TARGETS/bills", "--key", "id"], "the dump cannot be read"),
        (["DUMPS/bills.csv", "ftp://host/bills"], "tables cannot be there"),
        (["DUMPS/bills.csv", "s3://bucket/bills?secret=1"], "s3:// has no such option"),
        (["DUMPS/bills.csv", "TARGETS/bills", "--format", "xml"], "'xml' is not one of"),
    ],
)
def test_calls_that_cannot_be_end_with_2(penstock: Penstock, dump: Path, tmp_path: Path, args: list[str], message: str) -> None:
    write(tmp_path / "targets" / "bills", ROWS)
    (dump.parent / "bad.csv").write_text("id,amount\n1,2,3\n")
    paths = {"DUMPS": str(dump.parent), "TARGETS": str(tmp_path / "targets"), "NOWHERE": str(tmp_path / "nowhere")}
    if "DUMPS" in args:
        (dump.parent / "bad.csv").unlink()
    named = ["/".join(paths.get(part, part) for part in arg.split("/")) for arg in args]
    outcome = penstock("verify-sync", *named, code=2)
    assert message in outcome.err
    assert outcome.out == ""


@pytest.mark.versitygw  # a server of its own: deltalake's queries let no other thread of this process run
def test_targets_on_s3(penstock: Penstock, dump: Path, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in versitygw.environment.items():
        monkeypatch.setenv(name, value)
    url = versitygw.url("verify-sync")
    location = Location.of(url)
    write(f"{location.root}/bills", ROWS, options=dict(location.options))
    assert "equal" in penstock("verify-sync", dump.parent, url, "--key", "id").out
