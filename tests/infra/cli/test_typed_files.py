"""Files into topics with a schema, and out of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.infra.cli.conftest import Penstock

DDL = "id bigint not null, customer string, amount decimal(12,2), at timestamp, paid boolean, tags array<string>"
ROW = {"id": 1, "customer": "ann", "amount": "9.50", "at": "2026-01-31T12:00:00Z", "paid": True, "tags": ["a", "b"]}
VALUE = ROW | {"amount": Decimal("9.50"), "at": datetime(2026, 1, 31, 12, tzinfo=UTC)}


@pytest.fixture
def typed(penstock: Penstock) -> Penstock:
    penstock("topic", "create", "orders", "--queues", "1", "--schema", DDL, "--keys", "customer")
    return penstock


def values(penstock: Penstock, *where: str) -> list[Any]:
    return [row.get("value") for row in penstock("read", "orders", "--json", *where).rows]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_files_become_rows(typed: Penstock, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"orders.{suffix}"
    if suffix == "jsonl":
        file.write_text(json.dumps(ROW) + '\n{"id": 2}\n')
    elif suffix == "csv":
        file.write_text('id,customer,amount,at,paid,tags\n1,ann,9.50,2026-01-31T12:00:00Z,true,"[""a"", ""b""]"\n2,,,,,\n')
    else:
        fields = [
            ("id", pa.int64()),
            ("customer", pa.string()),
            ("amount", pa.decimal128(12, 2)),
            ("at", pa.timestamp("us", "UTC")),
        ]
        schema = pa.schema([*fields, ("paid", pa.bool_()), ("tags", pa.list_(pa.string()))])
        pq.write_table(pa.Table.from_pylist([VALUE, {"id": 2}], schema), file)
    assert "2 messages to orders" in typed("produce", "orders", file).out
    assert values(typed) == [ROW, dict.fromkeys(ROW) | {"id": 2}]
    assert values(typed, "--key", "ann") == [ROW]
    typed("produce", "orders", file, "--tag", "{id}")
    assert values(typed)[2:] == values(typed)[:2]


def test_a_record_that_does_not_fit_is_named(typed: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text(
        '{"id": 1}\n{"id": "x"}\n{"customer": "ann"}\n{"id": 3, "more": 1}\n{"id": 4, "amount": 9.555}\n{"id": 5, "amount": 9.5}\n'
    )
    refused = typed("produce", "orders", file, code=2)
    assert f"{file}, record 2, id" in refused.err
    skipped = typed("produce", "orders", file, "--on-error", "skip")
    assert "2 messages to orders" in skipped.out
    assert "record 3, id" in skipped.err
    assert "record 4, 'more'" in skipped.err
    assert "record 5, amount" in skipped.err
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"id": ["x"]}), bad)
    assert "from row 1 on" in typed("produce", "orders", bad, code=2).err


def test_rows_are_exported_with_their_columns(typed: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    typed("read", "orders", "-o", file)
    assert (pq.read_table(file).num_rows, pq.read_schema(file).names[-1]) == (0, "value")
    typed("produce", "orders", stdin=json.dumps(ROW) + "\n")
    typed("read", "orders", "-o", file, "--where", "value.amount > 5")
    found = pq.read_table(file)
    assert found["value"].to_pylist() == [VALUE]
    typed("read", "orders", "-o", file, "--key", "ann")
    assert pq.read_table(file)["value"].to_pylist() == [VALUE]
    heading, row = typed("read", "orders").out.splitlines()
    assert heading.split()[3:6] == ["id", "customer", "amount"]
    assert row.split()[3:6] == ["1", "ann", "9.50"]
