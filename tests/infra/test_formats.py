from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.infra.formats import FileFormat, read_records
from penstock.infra.labels import InputRecord, MessageLabels
from penstock.log.errors import InvalidArgument
from tests.cdc.test_debezium import MYSQL, POSTGRES, wrapped


def read(data: bytes, format: FileFormat, labels: MessageLabels | None = None) -> list[InputRecord]:
    return list(read_records(io.BytesIO(data), format, name="input", labels=labels))


def test_json_lines_keep_their_bytes() -> None:
    records = read(b'{"b": 1,  "a":2}\n\n{"a": 3}', FileFormat.JSONL)
    assert [record.body for record in records] == [b'{"b": 1,  "a":2}', b'{"a": 3}']
    assert records[0] == InputRecord(body=b'{"b": 1,  "a":2}')


def test_labels_name_fields_nested_fields_and_format_strings() -> None:
    labels = MessageLabels(
        message_group="user-{user.id}",
        tag="kind",
        keys=("id", "tags"),
        properties={"paid": "paid", "none": "none", "where": "{user.name}/{{x}}"},
        sequence="id",
        body="text",
    )
    line = {
        "id": 5,
        "kind": "a",
        "tags": ["x", "", "y"],
        "paid": True,
        "none": None,
        "user": {"id": 7, "name": "N"},
        "text": "hällo",
    }
    assert read(json.dumps(line).encode(), FileFormat.JSONL, labels) == [
        InputRecord(
            body="hällo".encode(),
            message_group="user-7",
            tag="a",
            keys=("5", "x", "y"),
            properties={"paid": "true", "where": "N/{x}"},
            sequence=5,
        )
    ]


def test_the_number_of_a_record_is_a_field() -> None:
    records = read(b"a\nx\ny\n", FileFormat.CSV, MessageLabels(sequence="record_number"))
    assert [record.sequence for record in records] == [1, 2]


def test_csv_is_text_with_a_header() -> None:
    data = '\ufeffid,name\r\n7,"a, ""b""\nc"\r\n\r\n8,\r\n'.encode()
    records = read(data, FileFormat.CSV, MessageLabels(message_group="u{id}", tag="name"))
    assert [json.loads(record.body) for record in records] == [{"id": "7", "name": 'a, "b"\nc'}, {"id": "8", "name": ""}]
    assert [(record.message_group, record.tag) for record in records] == [("u7", 'a, "b"\nc'), ("u8", None)]


def test_parquet_values_become_json() -> None:
    file = io.BytesIO()
    at = datetime(2026, 1, 2, tzinfo=UTC)
    pq.write_table(
        pa.table({"id": [1, 2], "at": [at, None], "price": [Decimal("1.50"), None], "raw": [b"\xff", b""]}), file, row_group_size=1
    )
    records = read(file.getvalue(), FileFormat.PARQUET, MessageLabels(message_group="id"))
    assert json.loads(records[0].body) == {"id": 1, "at": "2026-01-02 00:00:00+00:00", "price": "1.50", "raw": "/w=="}
    assert [record.message_group for record in records] == ["1", "2"]
    assert [record.body for record in read(file.getvalue(), FileFormat.PARQUET, MessageLabels(body="raw"))] == [b"\xff", b""]


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_numbers_that_json_has_not_make_no_body(value: float) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2, 3], "price": [1.5, value, None]}), file)
    with pytest.raises(InvalidArgument, match=r"NaN or an infinite number.*input, row 2; observed: price.*--on-error skip"):
        read(file.getvalue(), FileFormat.PARQUET, MessageLabels())
    skipped: list[InvalidArgument] = []
    found = read_records(io.BytesIO(file.getvalue()), FileFormat.PARQUET, name="input", skip=skipped.append)
    assert [json.loads(record.body)["id"] for record in found] == [1, 3]
    assert len(skipped) == 1


def test_an_update_without_a_key_that_leaves_its_group_is_refused() -> None:
    """Nothing would keep it behind the row's earlier events, so that the row of the old key would stay."""
    moved = {**POSTGRES, "op": "u", "before": {"id": 7}, "after": {"id": 8}}
    stayed = {**moved, "before": {"id": 8, "name": "x"}}
    unsaid = {**moved, "before": None}
    by_row = MessageLabels(message_group="{table}-{id}")
    for event, labels in ((stayed, by_row), (unsaid, by_row), (moved, MessageLabels(message_group="table"))):
        assert len(read(json.dumps(event).encode(), FileFormat.DEBEZIUM, labels)) == 1
    with pytest.raises(InvalidArgument, match=r"another message group.*expected: .*users-7; observed: .*users-8.*--group table"):
        read(json.dumps(moved).encode(), FileFormat.DEBEZIUM, by_row)
    keyed = json.dumps({"key": {"id": 8}, "value": wrapped(moved)}).encode()
    assert len(read(keyed, FileFormat.DEBEZIUM, by_row)) == 1


def test_debezium_events_are_grouped_by_row_unless_told_otherwise() -> None:
    with_key = json.dumps({"key": {"id": 7, "line": 2}, "value": wrapped(POSTGRES)}).encode()
    [record] = read(with_key, FileFormat.DEBEZIUM)
    assert record == InputRecord(
        body=with_key, message_group="users-7-2", tag="users", keys=("users-7-2",), properties={"op": "c"}, sequence=None
    )
    [record] = read(
        json.dumps(MYSQL).encode(), FileFormat.DEBEZIUM, MessageLabels(message_group="{schema}.{table}-{id}", sequence="position")
    )
    assert (record.message_group, record.sequence) == ("shop.users-7", 3 << 44 | 484 << 12 | 1)


@pytest.mark.parametrize(
    ("event", "group"),
    [
        ({**POSTGRES, "op": "t", "after": None}, "users"),
        (
            {**POSTGRES, "op": "m", "after": None, "source": {"table": ""}, "message": {"prefix": "audit", "content": "eA=="}},
            "audit",
        ),
    ],
)
def test_events_of_no_row_are_grouped_by_table_or_prefix(event: dict[str, Any], group: str) -> None:
    [record] = read(json.dumps({"key": None, "value": event}).encode(), FileFormat.DEBEZIUM)
    assert (record.message_group, record.tag, record.keys, record.properties) == (group, group, (group,), {"op": event["op"]})


def test_a_csv_field_may_be_as_large_as_a_body() -> None:
    [record] = read(b"a\n" + b"x" * 4 * 2**20 + b"\n", FileFormat.CSV, MessageLabels(body="a"))
    assert len(record.body) == 4 * 2**20


def test_a_header_that_names_a_column_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"names a column twice.*input.*observed: a"):
        list(read_records(io.BytesIO(b"a,b,a\n1,2,3\n"), FileFormat.CSV, name="input", skip=lambda _: None))


def test_a_byte_order_mark_is_no_part_of_a_body() -> None:
    assert [record.body for record in read(b'\xef\xbb\xbf{"a": 1}\n{"a": 2}', FileFormat.JSONL)] == [b'{"a": 1}', b'{"a": 2}']


def test_a_list_in_a_list_of_keys_is_spelt_as_json() -> None:
    [record] = read(b'{"tags": [["a"], {"b": 1}, null, ""]}', FileFormat.JSONL, MessageLabels(keys=("tags",)))
    assert record.keys == ('["a"]', '{"b": 1}')


def test_tombstones_are_passed_over() -> None:
    assert read(b'{"key": {"id": 7}, "value": null}\nnull\n', FileFormat.DEBEZIUM) == []


@pytest.mark.parametrize(
    ("format", "data", "labels", "message"),
    [
        (FileFormat.JSONL, b'{"a": 1}\n{"a": \n', MessageLabels(), r"no JSON: .*input, line 2.*--on-error skip"),
        (FileFormat.JSONL, b'{"a": 1}\n\n[1]\n', MessageLabels(), r"no JSON object.*input, line 3"),
        (FileFormat.JSONL, b'{"a": 1}\n{"a": "\xff"}\n', MessageLabels(), r"no UTF-8.*input, line 2"),
        (FileFormat.JSONL, b'{"a": 1}\n' + '{"a": "ä"}'.encode("utf-16"), MessageLabels(), r"no UTF-8 \(`iconv.*input, line 2"),
        (FileFormat.JSONL, b'{"a": 1}\n' + b"[" * 200_000 + b"\n", MessageLabels(), r"cannot be read.*input, line 2"),
        (FileFormat.JSONL, b'{"a": 1}\n{"b": 2}\n', MessageLabels(tag="a"), r"no field a.*input, line 2.*fields record_number, b"),
        (
            FileFormat.JSONL,
            b'{"a": 1}\n{"a": null}\n',
            MessageLabels(message_group="g-{a}"),
            r"field a, which is empty.*input, line 2",
        ),
        (FileFormat.JSONL, b'{"a": 1}\n{"a": "x"}\n', MessageLabels(sequence="a"), r"sequence, a, is no integer.*line 2"),
        (FileFormat.CSV, b"a,b\n1,2\n1,2,3\n", MessageLabels(), r"number of fields.*input, line 3; expected: 2; observed: 3"),
        (FileFormat.CSV, b'a,b\n1,2\n"x"y,2\n', MessageLabels(), r"no CSV.*input, line 3"),
        (FileFormat.CSV, b"a,b\n1,2\n\xff,2\n", MessageLabels(), r"no UTF-8.*input, line 3"),
        (FileFormat.DEBEZIUM, b'{"op": "c"}', None, r"no Debezium envelope.*input, line 1"),
        (
            FileFormat.DEBEZIUM,
            json.dumps(MYSQL).encode(),
            None,
            r"field key, which is empty.*input, line 1.*--group '{table}-{id}'",
        ),
        (FileFormat.JSONL, b'{"a": 1}\n[{"a": 1},\n', MessageLabels(), r"no JSON.*input, line 2.*one object a line"),
    ],
)
def test_a_bad_record_is_named_or_skipped(format: FileFormat, data: bytes, labels: MessageLabels | None, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(data, format, labels)
    skipped: list[InvalidArgument] = []
    good = list(read_records(io.BytesIO(data), format, name="input", labels=labels, skip=skipped.append))
    assert len(skipped) == 1
    assert len(good) == (0 if format is FileFormat.DEBEZIUM else 1)


def test_reading_goes_on_after_a_skipped_record() -> None:
    skipped: list[InvalidArgument] = []
    data = b'a,b\n1,2\n"x"y,2\n3\n5,6\n'
    records = list(read_records(io.BytesIO(data), FileFormat.CSV, name="input", skip=skipped.append))
    assert [json.loads(record.body)["a"] for record in records] == ["1", "5"]
    assert len(skipped) == 2


def test_a_file_that_is_no_parquet_is_named_and_never_skipped() -> None:
    for data in (b"", b"PAR1 no, it is not PAR1"):
        with pytest.raises(InvalidArgument, match=r"no Parquet file.*input"):
            list(read_records(io.BytesIO(data), FileFormat.PARQUET, name="input", skip=lambda _: None))


def test_parquet_from_a_pipe_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(InvalidArgument, match=r"pipe.*input.*Save it to a file"):
        list(read_records(Pipe(), FileFormat.PARQUET, name="input"))


@pytest.mark.parametrize("spec", ["{", "{}", "a}", "{a!r}", "{a:>5}"])
def test_a_malformed_format_string_is_refused_at_once(spec: str) -> None:
    with pytest.raises(InvalidArgument, match="malformed format string"):
        MessageLabels(message_group="{x}" + spec)
