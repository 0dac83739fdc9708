"""`penstock read` of topics with a schema: fields as columns, and only the columns asked for."""

from __future__ import annotations

import csv
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock import Message, connect
from tests.infra.cli.conftest import Penstock


@pytest.fixture
def rows(penstock: Penstock, lake: Path) -> Penstock:
    with connect(lake) as opened:
        opened.create_topic("orders", schema="id int, amount decimal(9,2), tags array<string>, raw binary", queues=1)
        with opened.producer("orders") as producer:
            producer.send_row({"id": 1, "amount": Decimal("1.5"), "tags": ["a\x1bb"], "raw": b"\xffx"})
            producer.send_row({"id": 2})
    return penstock


def test_fields_are_columns_of_the_table(rows: Penstock) -> None:
    heading, first, second = rows("read", "orders").out.splitlines()
    assert heading.split() == ["queue", "offset", "store_timestamp", "id", "amount", "tags", "raw"]
    assert first.split()[3:] == ["1", "1.50", '["a\\u001bb"]', "\N{REPLACEMENT CHARACTER}x"]
    assert second.split()[3:] == ["2", "-", "-", "-"]


def test_only_the_columns_asked_for(rows: Penstock) -> None:
    assert rows("read", "orders", "--columns", "offset, value.amount").out.split() == ["offset", "amount", "0", "1.50", "1", "-"]
    assert rows("read", "orders", "--columns", "value.id", "--where", "value.amount > 1", "--json").rows == [{"value": {"id": 1}}]
    assert rows("read", "orders", "--columns", "offset", "--json").rows == [{"offset": 0}, {"offset": 1}]


def test_parts_of_messages_may_be_asked_for_as_well(rows: Penstock, lake: Path) -> None:
    with connect(lake) as opened:
        opened.create_topic("plain", queues=1)
        with opened.producer("plain") as producer:
            producer.send(Message("né".encode(), key=b"\xff", headers=[("h", b"1"), ("h", None)]))
            producer.send(Message(b"\xff"))
    assert rows("read", "orders", "--columns", "body,offset").out.split() == ["body", "offset", "-", "0", "-", "1"]
    assert rows("read", "plain", "--columns", "offset,body").out.split()[:4] == ["offset", "body", "0", "né"]
    headers = [{"key": "h", "value_base64": "MQ=="}, {"key": "h", "value_base64": None}]
    assert rows("read", "plain", "--columns", "body,key,headers", "--json").rows == [
        {"body": "né", "body_base64": False, "key_base64": "/w==", "headers": headers},
        {"body": "/w==", "body_base64": True, "key_base64": None, "headers": []},
    ]
    (whole, _), (time, _) = (
        rows("read", "plain", "--json").rows,
        rows("read", "plain", "--columns", "store_timestamp", "--json").rows,
    )
    assert time == {"store_timestamp": whole["store_timestamp"]}


def test_csv_has_a_column_for_each_field(rows: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    rows("read", "orders", "-o", file)
    assert file.read_text() == rows("read", "orders", "--csv").out == rows("read", "orders", "--csv", "-o", "-").out
    with file.open(newline="") as opened:
        first, second = csv.DictReader(opened)
    assert list(first)[:3] == ["queue", "offset", "message_id"]
    assert list(first)[-4:] == ["id", "amount", "tags", "raw"]
    assert [first[name] for name in ("id", "amount", "tags", "raw")] == ["1", "1.50", r'["a\u001bb"]', "/3g="]
    assert [second[name] for name in ("offset", "id", "amount", "tags", "raw", "keys")] == ["1", "2", "", "", "", ""]
    assert rows("read", "orders", "--csv", "--where", "value.id > 9").out.splitlines() == [",".join(first)]


def test_files_have_the_columns_asked_for(rows: Penstock, lake: Path, tmp_path: Path) -> None:
    asked = ("read", "orders", "--columns", "offset,value.id,value.tags")
    assert rows(*asked, "--csv").out == 'offset,id,tags\n0,1,"[""a\\u001bb""]"\n1,2,\n'
    for suffix in ("csv", "jsonl", "parquet"):
        rows(*asked, "-o", tmp_path / f"out.{suffix}")
        rows(*asked, "--where", "value.id > 9", "-o", tmp_path / f"none.{suffix}")
    assert (tmp_path / "out.csv").read_text() == rows(*asked, "--csv").out
    assert (tmp_path / "none.csv").read_text() == "offset,id,tags\n"
    assert (tmp_path / "out.jsonl").read_text() == rows(*asked, "--json").out == rows(*asked, "-o", "-").out
    found, none = pq.read_table(tmp_path / "out.parquet"), pq.read_table(tmp_path / "none.parquet")
    assert found.to_pylist()[1] == {"offset": 1, "value": {"id": 2, "tags": None}}
    assert (none.schema, none.num_rows) == (found.schema, 0)
    with connect(lake) as opened:
        opened.create_topic("plain", queues=1)
        with opened.producer("plain") as producer:
            producer.send(Message(b"\xff", key=b"k"))
    assert rows("read", "plain", "--columns", "key,body", "--csv").out == "key_base64,body,body_base64\naw==,/w==,true\n"


def test_csv_of_all_fields_comes_back(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    ddl = "f double, g float, t string, b binary, d decimal(9,2), ok boolean, at timestamp, day date"
    ddl += ", xs array<int>, m map<string, int>, k map<int, int>"
    row = {
        "f": math.inf, "g": 1.5, "t": "a,\n\"b\"", "b": b"\xff", "d": Decimal("1.50"), "ok": False, "at": datetime(2026, 1, 1, tzinfo=UTC),
        "day": date(2026, 1, 1), "xs": [], "m": {"a": None}, "k": {1: 2},
    }  # fmt: skip
    with connect(lake) as opened:
        opened.create_topic("all", schema=ddl, queues=1)
        opened.create_topic("copy", schema=ddl, queues=1)
        with opened.producer("all") as producer:
            producer.send_batch([row, dict.fromkeys(row)])
    for suffix, options in (("csv", ()), ("jsonl", ("--body", "value")), ("parquet", ("--body", "value"))):
        penstock("read", "all", "--columns", "value", "-o", tmp_path / f"all.{suffix}")
        penstock("produce", "copy", tmp_path / f"all.{suffix}", *options)
    penstock("read", "all", "-o", tmp_path / "whole.parquet")
    penstock("produce", "copy", tmp_path / "whole.parquet", "--body", "value")
    assert "--body value" in penstock("produce", "copy", tmp_path / "whole.parquet", code=2).err
    with connect(lake, read_only=True) as opened:
        assert [message.value for message in opened.reader("copy").messages()] == 4 * [row, dict.fromkeys(row)]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--columns", "value.nobody"], "there are no columns value.nobody"),
        (["--columns", ","], "--columns names no column"),
        (["--columns", "offset", "--key", "k"], "--columns reads the topic"),
    ],
)
def test_what_does_not_go_together_is_refused(rows: Penstock, args: list[str], said: str) -> None:
    assert said in rows("read", "orders", *args, code=2).err
