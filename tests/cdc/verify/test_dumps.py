"""Dumps of every format hold what their files say; what cannot be read is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cdc.verify.dump_format import DumpFormat
from penstock.cdc.verify.dumps import Dump
from penstock.cdc.verify.pairs import DumpOptions, find_dumps, keys_of, table_of
from penstock.infra.files import open_file
from penstock.log.errors import InvalidArgument

OPTIONS = DumpOptions(open_file)


def rows(dump: Dump) -> list[dict[str, Any]]:
    return [row for batch in dump.batches() for row in batch.to_pylist()]


def only(path: Path, content: bytes | str, **options: Any) -> Dump:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (dump,) = find_dumps(str(path), OPTIONS._replace(**options))
    return dump


def test_csv_tells_null_from_an_empty_text_and_reads_what_is_quoted(tmp_path: Path) -> None:
    dump = only(tmp_path / "t.csv", 'id,"a ""b""",c\n1,"",x\n2,,"two\nlines, and a ""quote"""\n3,\\N,NULL\n')
    assert dump.columns() == ["id", 'a "b"', "c"]
    assert [list(row.values()) for row in rows(dump)] == [
        ["1", "", "x"],
        ["2", None, 'two\nlines, and a "quote"'],
        ["3", "\\N", "NULL"],
    ]


def test_csv_with_another_null(tmp_path: Path) -> None:
    dump = only(tmp_path / "t.csv", 'id,a\n1,\n2,\\N\n3,"\\N"\n', null="\\N")
    assert [row["a"] for row in rows(dump)] == ["", None, "\\N"]


def test_csv_with_a_byte_order_mark_and_packed(tmp_path: Path) -> None:
    dump = only(tmp_path / "t.csv.gz", gzip.compress("\ufeffid,name\n1,ß丁\n".encode()))
    assert (dump.name, dump.columns(), rows(dump)) == ("t", ["id", "name"], [{"id": "1", "name": "ß丁"}])


def test_json_lines_keep_every_digit_and_know_every_column(tmp_path: Path) -> None:
    lines = [{"id": 1, "n": 2**70, "f": 0.1}, {"id": 2, "later": [1, {"a": None}]}]
    dump = only(tmp_path / "t.jsonl", "".join(json.dumps(line) + "\n" for line in lines) + "\n")
    assert dump.columns() == ["id", "n", "f", "later"]
    first, second = rows(dump)
    assert (first["id"], first["n"], first["f"], first["later"]) == (1, str(2**70), "0.1", None)
    assert second["later"] == '[1,{"a":null}]'
    assert [batch.schema.names for batch in dump.batches(["later", "id"])] == [["later", "id"]]


def test_json_lines_with_a_byte_order_mark_and_numbers_of_any_size(tmp_path: Path) -> None:
    lines = '{"a": 1, "b": 1, "c": 9223372036854775807, "d": null}\n{"a": null, "b": 9223372036854775808, "c": -9223372036854775807, "d": null}\n'
    dump = only(tmp_path / "t.jsonl", "\ufeff" + lines)
    assert rows(dump) == [
        {"a": 1, "b": "1", "c": 2**63 - 1, "d": None},
        {"a": None, "b": str(2**63), "c": -(2**63) + 1, "d": None},
    ]


def test_files_of_one_table_in_several_formats_are_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "bills").mkdir()
    for end in ("csv", "jsonl"):
        (tmp_path / "bills" / f"part.{end}").write_text("id\n1\n")
    with pytest.raises(InvalidArgument, match="does not say what it holds") as raised:
        find_dumps(str(tmp_path), OPTIONS)
    assert raised.value.object == "bills"
    (dump,) = find_dumps(str(tmp_path), OPTIONS._replace(format=DumpFormat.CSV))
    assert len(dump.files) == 2


def test_parquet_in_several_files_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "dumps" / "public.bills"
    folder.mkdir(parents=True)
    for number in range(3):
        table = pa.table({"id": [number], "amount": pa.array([Decimal("1.50")], pa.decimal128(12, 2))})
        pq.write_table(table, folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").write_bytes(b"")
    (dump,) = find_dumps(str(tmp_path / "dumps"), OPTIONS)
    assert dump.name == "public.bills"
    assert rows(dump) == [{"id": number, "amount": Decimal("1.50")} for number in range(3)]
    assert [batch.schema.names for batch in dump.batches(["amount", "absent"])] == [["amount"]] * 3


def test_a_folder_has_a_dump_for_each_table(tmp_path: Path) -> None:
    for name in ("b.csv", "a.jsonl.gz", "c.parquet", "notes.txt", ".hidden.csv"):
        (tmp_path / name).write_bytes(b"")
    assert [(dump.name, dump.format) for dump in find_dumps(str(tmp_path), OPTIONS)] == [
        ("a", "jsonl"),
        ("b", "csv"),
        ("c", "parquet"),
    ]


@pytest.mark.parametrize(
    ("url", "table"),
    [
        ("orders.csv", "orders"),
        ("dumps/public.orders.CSV.gz", "public.orders"),
        ("s3://bucket/day=1/orders.parquet?region=x", "orders"),
        ("orders", "orders"),
        ("v1.2", "v1.2"),
    ],
)
def test_a_table_is_called_as_its_file(url: str, table: str) -> None:
    assert table_of(url) == table


def test_files_are_opened_anew_and_closed_each_time(tmp_path: Path) -> None:
    opened = closed = 0

    @contextmanager
    def counted(url: str) -> Iterator[BinaryIO]:
        nonlocal opened, closed
        opened += 1
        with open_file(url) as file:
            yield file
        closed += 1

    dump = only(tmp_path / "t.jsonl", '{"id": 1}\n', open=counted)
    assert rows(dump) == rows(dump) == [{"id": 1}]
    assert (opened, closed) == (2, 2)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "", "it has no header"),
        ("t.csv", "id,id\n1,2\n", "its header names id twice"),
        ("t.csv", "id,a\n1,2,3\n", "Expected 2 columns, got 3"),
        ("t.csv", b"id,a\n1,\xff\xfe\n", "utf-8"),
        ("t.jsonl", '{"id": 1}\n{"id": \n', "line 2: "),
        ("t.jsonl", "[1]\n", "line 1 is no object"),
        ("t.parquet", "no Parquet at all", "Parquet"),
    ],
)
def test_a_dump_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes | str, said: str) -> None:
    dump = only(tmp_path / name, content)
    with pytest.raises(InvalidArgument, match="the dump cannot be read") as raised:
        print(dump.columns(), rows(dump))
    assert said in str(raised.value)
    assert name in str(raised.value)


def test_a_file_whose_name_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"does not say what it holds.*--format") as raised:
        only(tmp_path / "dump", "id\n1\n")
    assert raised.value.object == str(tmp_path / "dump")


def test_nothing_to_compare_with(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is nothing to compare with"):
        find_dumps(str(tmp_path), OPTIONS)


def test_keys() -> None:
    assert keys_of(["id"]) == (("id",), {})
    assert keys_of(["a,b", "orders=id , line", "public.x=k"]) == (("a", "b"), {"orders": ("id", "line"), "public.x": ("k",)})


@pytest.mark.parametrize("key", ["", "a,,b", "orders=", "=id"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(InvalidArgument, match="not a key"):
        keys_of([key])
