from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.gateway.kafka.records.columns import MESSAGES_SCHEMA, messages_of, records_of
from penstock.gateway.kafka.records.decoding import RECORDS_SCHEMA, decode
from penstock.log.limits import TopicLimits
from penstock.log.message.arrow import check_arrow
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.message.message_type import MessageType
from tests.gateway.kafka.records.oracle import NOW_MS, Record, built, records
from tests.thorough import examples

NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
keys = st.none() | st.binary(max_size=70) | st.text(max_size=40).map(str.encode) | st.sampled_from([b"order-1", b"order-2"])


def decoded(*given: Record) -> pa.RecordBatch:
    return decode([built(given)], limit_bytes=2**24)


def stored(messages: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as a reader gives them."""
    names = messages.schema.names
    columns = [messages[one.name] if one.name in names else pa.nulls(messages.num_rows, one.type) for one in MESSAGE_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def rows(*given: dict[str, Any]) -> pa.RecordBatch:
    every = {"born_timestamp": NOW, "store_timestamp": NOW, "body": b""}
    return pa.RecordBatch.from_pylist([every | one for one in given], MESSAGE_SCHEMA)


def hashed(key: bytes) -> str:
    return b64encode(blake2b(key, digest_size=16).digest()).decode()


@given(st.lists(st.builds(lambda one, key: one._replace(key=key), records, keys), min_size=1, max_size=30))
@settings(max_examples=examples(200), deadline=None)
def test_records_come_back_and_the_log_takes_them(given: list[Record]) -> None:
    sent = decoded(*given)
    messages = messages_of(sent)
    messages.validate(full=True)
    assert messages.schema == MESSAGES_SCHEMA
    assert records_of(stored(messages)).equals(sent)
    check_arrow(messages, MessageType.MIXED, TopicLimits(), 1)


@pytest.mark.parametrize("key", [b"k", b"order 7", "Größe".encode(), b"x" * 63, "ü".encode() * 31])
def test_a_key_that_could_be_a_message_group_is_one(key: bytes) -> None:
    (message,) = messages_of(decoded(Record(key))).to_pylist()
    assert (message["message_group"], message["key"]) == (key.decode(), None)


@pytest.mark.parametrize("key", [b"", b" ", b"x" * 64, "ü".encode() * 32, b"\xff", b"a\nb", b"\0\0\0\0\x01", b"a\x00"])
def test_any_other_key_has_its_hash_as_message_group(key: bytes) -> None:
    for sent in ([Record(key)], [Record(b"text"), Record(key), Record(None), Record(key)]):
        messages = messages_of(decoded(*sent)).to_pylist()
        groups = {key: hashed(key), b"text": "text", None: None}
        assert [one["message_group"] for one in messages] == [groups[one.key] for one in sent]
        assert [one["key"] for one in messages] == [key if one.key == key else None for one in sent]


def test_a_record_without_key_has_no_message_group_and_without_value_no_body() -> None:
    (message,) = messages_of(decoded(Record(None, None))).to_pylist()
    assert message == {"message_group": None, "key": None, "body": None, "headers": None, "born_timestamp": NOW}


def test_no_records_are_no_messages() -> None:
    assert messages_of(decode([], limit_bytes=1)).num_rows == 0
    assert records_of(rows()).schema == RECORDS_SCHEMA


def test_a_messages_key_is_its_own_or_else_its_group() -> None:
    found = records_of(rows({"message_group": "g"}, {"message_group": "g", "key": b"\x01"}, {"key": b"\x02"}, {}))
    assert found["key"].to_pylist() == [b"g", b"\x01", b"\x02", None]
    assert found["offset_delta"].to_pylist() == [0, 1, 2, 3]


def test_properties_tag_and_keys_are_headers_behind_the_headers() -> None:
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    found = records_of(
        rows(
            {"headers": headers, "properties": [("p", "ü"), ("a", "")], "tag": "paid", "keys": ["k 1", "k2"]},
            {},
            {"headers": headers, "properties": []},
            {"tag": "made"},
            {"keys": ["k3"], "properties": [("p", "2")]},
            {"headers": []},
        )
    )
    found.validate(full=True)
    both = [("h", b"1"), ("h", None)]
    assert [[(one["key"], one["value"]) for one in of_row or ()] for of_row in found["headers"].to_pylist()] == [
        [
            *both,
            ("p", "ü".encode()),
            ("a", b""),
            ("penstock.tag", b"paid"),
            ("penstock.keys", b"k 1"),
            ("penstock.keys", b"k2"),
        ],
        [],
        both,
        [("penstock.tag", b"made")],
        [("p", b"2"), ("penstock.keys", b"k3")],
        [],
    ]


def test_a_slice_has_its_own_headers_only() -> None:
    given = rows(*[{"properties": [("p", f"{number}")], "keys": [f"{number}"]} for number in range(9)])
    assert records_of(given.slice(4, 3))["headers"].to_pylist() == records_of(given)["headers"].to_pylist()[4:7]


def test_times_are_those_of_birth_or_of_the_append_in_whole_milliseconds() -> None:
    given = rows({"born_timestamp": NOW.replace(microsecond=1999), "store_timestamp": NOW.replace(microsecond=7999)})
    assert records_of(given)["timestamp"].view(pa.int64()).to_pylist() == [NOW_MS + 1]
    assert records_of(given, log_append_time=True)["timestamp"].view(pa.int64()).to_pylist() == [NOW_MS + 7]
    before = rows({"born_timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_900, UTC)})
    assert records_of(before)["timestamp"].view(pa.int64()).to_pylist() == [-1]


def test_typed_rows_are_json() -> None:
    value = pa.array([{"id": 1, "name": "ü"}, None], pa.struct([("id", pa.int64()), ("name", pa.string())]))
    typed = rows({"body": None}, {"body": None}).append_column("value", value)
    assert records_of(typed)["value"].to_pylist() == ['{"id":1,"name":"ü"}'.encode(), None]
