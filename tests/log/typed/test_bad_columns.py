"""Columns whose values Arrow can hold, and Python or stored files cannot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log.errors import InvalidArgument
from tests.lakes import TIMEOUT_S
from tests.log.typed.lakes import typed_lake

NO_TEXT = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
ONE = pa.array([0, 1], pa.int32())
SCHEMA = "id int, t timestamp, d date, s string, l array<timestamp_ntz>, m map<string, string>"
BAD: list[tuple[str, Any, str, str]] = [
    (
        "t",
        pa.array([2**62], pa.timestamp("us", "UTC")),
        "t; expected: timestamp; observed: .* 4611686018427387904",
        "4611686018427387904",
    ),
    (
        "t",
        pa.array([2**62], pa.timestamp("s", "UTC")),
        "t; expected: timestamp; observed: .* 4611686018427387904",
        "4611686018427387904",
    ),
    ("d", pa.array([2**30], pa.date32()), "d; expected: date; observed: .* 1073741824", "1073741824"),
    (
        "l",
        pa.array([[2**62]], pa.list_(pa.timestamp("us"))),
        "l.element; expected: timestamp_ntz; observed: .* 46116",
        "timestamp[us]",
    ),
    ("s", NO_TEXT, r"s; expected: string; observed: .* no UTF-8: b'\\xff\\xfe'", "string"),
    ("m", pa.MapArray.from_arrays(ONE, pa.array(["k"]), NO_TEXT), "m.value; expected: string; observed: .* no UTF-8", "map"),
]


@pytest.mark.parametrize(("name", "column", "said", "kept"), BAD)
def test_a_value_that_nothing_else_holds_is_named(name: str, column: Any, said: str, kept: str) -> None:
    data = pa.table({"id": pa.array([1], pa.int32()), name: column})
    with typed_lake(SCHEMA) as lake:
        with lake.lake.producer("orders") as producer, pytest.raises(InvalidArgument, match=f"message 0, {said}"):
            producer.send_batch(data)
        with lake.lake.producer("orders", invalid="topic") as producer:
            assert producer.send_batch(data).result(timeout=TIMEOUT_S).invalid == 1
        (message,) = lake.lake.reader("orders-invalid").messages()
        assert message.json()["id"] == 1
        assert kept in message.json()[name]
        assert lake.values() == []


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("tag", NO_TEXT),
        ("message_group", NO_TEXT),
        ("keys", pa.ListArray.from_arrays(ONE, NO_TEXT)),
        ("properties", pa.MapArray.from_arrays(ONE, pa.array(["k"]), NO_TEXT)),
        ("headers", pa.ListArray.from_arrays(ONE, pa.StructArray.from_arrays([NO_TEXT, pa.array([b"v"])], ["key", "value"]))),
    ],
)
def test_a_label_that_is_no_text_is_refused(name: str, column: Any) -> None:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("t", queues=1)
        with lake.producer("t") as producer, pytest.raises(InvalidArgument, match=f"column {name} is damaged.*Invalid UTF8"):
            producer.send_batch(pa.table({"body": [b"x"], name: column}))


def test_columns_that_are_not_those_of_the_topic_name_it() -> None:
    said = "object: orders; expected: id int; observed: x is not in the schema"
    with typed_lake("id int") as lake, lake.lake.producer("orders") as producer, pytest.raises(InvalidArgument, match=said):
        producer.send_batch(pa.table({"x": [1]}))
