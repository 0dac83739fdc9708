"""Topics with a schema: rows in, rows out, through log and table, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import penstock
from penstock.log.errors import InvalidArgument, LimitExceeded, MessageTypeMismatch, TopicExists
from tests.lakes import TIMEOUT_S
from tests.log.typed.lakes import ORDERS, TypedLake, typed_lake

AT = datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)
ROW = {"id": 1, "customer": "c1", "amount": Decimal("1.50"), "at": AT, "lines": [{"sku": "a", "count": 2}]}


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    id: int
    customer: str | None = None
    amount: Decimal | None = None


def table_of(lake: TypedLake) -> pa.Table:
    return lake.lake.reader("orders").to_arrow()


@pytest.mark.parametrize("where", ["log", "table", "compacted"])
def test_rows_come_back_as_they_were_sent(where: str) -> None:
    with typed_lake() as lake:
        lake.send(ROW, Order(2, "c2", Decimal(3)))
        if where != "log":
            lake.upkeep()
        lake.send({"id": 3})
        if where == "compacted":
            lake.upkeep()
            lake.upkeep()
        with lake.lake.producer("orders") as producer:
            producer.send(penstock.Message(None, tag="gone")).result(timeout=TIMEOUT_S)
        nothing = dict.fromkeys(ROW)
        assert lake.values() == [ROW, nothing | {"id": 2, "customer": "c2", "amount": Decimal("3.00")}, nothing | {"id": 3}, None]
        found = list(lake.lake.reader("orders").messages())
        assert [message.body for message in found] == [None] * 4
        assert found[1].as_(Order) == Order(2, "c2", Decimal("3.00"))
        assert found[0].json() == {
            **ROW,
            "amount": "1.50",
            "at": "2026-01-31T12:00:00.123456Z",
        }
        assert found[3].as_(Order) is None
        value = table_of(lake).schema.field("value")
        assert value.type.field("id") == pa.field("id", pa.int64(), nullable=False)
        assert value.nullable


def test_columns_are_sent_as_they_are() -> None:
    with typed_lake(
        message_type="FIFO",
        message_group="customer",
        tag="kind",
        keys=["id", "customer"],
        schema="id int, customer string, kind string",
    ) as lake:
        data = pa.table({"customer": ["a", "b", "a"], "id": [1, 2, None], "kind": ["x", None, "y"], "sequence": [5, 6, 9]})
        with lake.lake.producer("orders", name="loader") as producer:
            assert producer.send_batch(data).result(timeout=TIMEOUT_S).rows == 3
            assert producer.last_sequence == 9
        with lake.lake.producer("orders", name="loader") as producer:
            again = producer.send_batch(data).result(timeout=TIMEOUT_S)
            assert (again.rows, again.duplicates) == (0, 3)
        found = list(lake.lake.reader("orders").messages())
        assert [(one.message_group, one.tag, one.keys) for one in found] == [
            ("a", "x", ("1", "a")),
            ("b", None, ("2", "b")),
            ("a", "y", ("a",)),
        ]
        assert [one.value["id"] for one in found] == [1, 2, None]


def test_a_batch_larger_than_an_entry_is_staged() -> None:
    with typed_lake("id int, text string") as lake:
        data = pa.table({"id": range(3000), "text": [f"{number}" * 300 for number in range(3000)]})
        with lake.lake.producer("orders") as producer:
            producer.send_batch(data).result(timeout=TIMEOUT_S)
        lake.upkeep()
        assert table_of(lake)["value"].combine_chunks().field("text").to_pylist() == data["text"].to_pylist()


@pytest.mark.parametrize(
    ("schema", "row", "said"),
    [
        (ORDERS, {"id": "x"}, "orders, message .*, id; expected: bigint; observed: the str 'x'"),
        (ORDERS, {}, "id; expected: bigint not null; observed: NULL"),
        (ORDERS, {"id": 1, "idd": 2}, "idd; expected: a field of the schema; observed: the field 'idd'"),
        (ORDERS, {"id": 1, "amount": Decimal("12345678901.00")}, r"amount; expected: decimal\(12,2\); observed: the Decimal"),
        (ORDERS, {"id": 1, "at": AT.replace(tzinfo=None)}, r"at; expected: timestamp \(a datetime with a zone\)"),
        (
            ORDERS,
            {"id": 1, "amount": float("nan")},
            r"amount; expected: decimal\(12,2\) \(a Decimal or an int\); observed: the float nan",
        ),
        (ORDERS, {"id": float("nan")}, "id; expected: bigint; observed: the float nan"),
        (ORDERS, {"id": 1, "lines": [{"sku": 5}]}, "lines.element.sku; expected: string; observed: the int 5"),
        ("text string", {"text": "x" * (4 * 1024 * 1024 + 1)}, "the row; expected: at most 4194304 bytes; observed: 4194305 bytes"),
    ],
)
def test_a_bad_row_refuses_its_batch_and_is_named(schema: str, row: dict[str, Any], said: str) -> None:
    with typed_lake(schema) as lake:
        good = {"id": 1} if schema == ORDERS else {"text": "good"}
        with lake.lake.producer("orders", linger=timedelta(hours=1)) as producer:
            receipts = [producer.send_row(good), producer.send_row(row)]
            with pytest.raises(InvalidArgument, match="1 of 2 rows do not fit the topic's schema"):
                producer.flush()
            for receipt in receipts:
                with pytest.raises(InvalidArgument, match=said):
                    receipt.result(timeout=TIMEOUT_S)
            with pytest.raises(penstock.log.ProducerFailedError):
                producer.send_row(good)
        with lake.lake.producer("orders") as producer, pytest.raises(InvalidArgument, match="nothing of the batch was sent"):
            producer.send_batch([good, row])
        assert lake.values() == []


def test_what_is_no_row_is_refused_at_once() -> None:
    with typed_lake() as lake, lake.lake.producer("orders") as producer:
        with pytest.raises(InvalidArgument, match="takes rows and no bodies"):
            producer.send(penstock.Message(b"{}"))
        with pytest.raises(InvalidArgument, match=r"a row is None.*a tombstone is"):
            producer.send_row(None)
        with pytest.raises(InvalidArgument, match=r"a row is None.*a tombstone is"):
            producer.send_batch([None])
        with pytest.raises(InvalidArgument, match="fields and no body"):
            producer.send_batch(pa.table({"body": [b"x"]}))
        with pytest.raises(InvalidArgument, match="columns tag are there twice"):
            producer.send_batch(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["tag", "tag"]))
        with pytest.raises(InvalidArgument, match=r"takes Arrow data, rows or messages.*int"):
            producer.send_batch(7)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="id is double, not bigint"):
            producer.send_batch(pa.table({"id": [1.5]}))
    with typed_lake(message_type="FIFO", message_group="customer") as lake, lake.lake.producer("orders") as producer:
        with pytest.raises(MessageTypeMismatch, match="this tombstone has no message group"):
            producer.send(penstock.Message(None))
        with pytest.raises(InvalidArgument, match="message_group; expected: none, as it comes from customer; observed: g"):
            producer.send_row({"id": 1, "customer": "c"}, message_group="g").result(timeout=TIMEOUT_S)
    with penstock.connect("memory://") as plain:
        plain.create_topic("orders", queues=1)
        with (
            plain.producer("orders") as producer,
            pytest.raises(InvalidArgument, match="the topic has no schema, so it takes no rows"),
        ):
            producer.send_row({"id": 1})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": 1}, "customer; expected: a message group; observed: NULL"),
        ({"id": 1, "customer": "x" * 64}, "customer; expected: a message group of at most 63 bytes"),
        ({"id": 1, "customer": " "}, "customer; expected: a message group of visible characters"),
    ],
)
def test_a_field_that_cannot_be_a_message_group_refuses_the_row(row: dict[str, Any], said: str) -> None:
    with typed_lake(message_type="FIFO", message_group="customer") as lake:
        with lake.lake.producer("orders") as producer, pytest.raises(InvalidArgument, match=said):
            producer.send_batch([row])
        with pytest.raises(InvalidArgument, match=said):
            lake.send(row)


def test_a_row_may_have_a_key_and_headers() -> None:
    with typed_lake("id int") as lake:
        with lake.lake.producer("orders") as producer:
            producer.send(penstock.Message.of({"id": 1}, key=b"k", headers=[("h", b"v")], tag="t")).result(timeout=TIMEOUT_S)
        lake.upkeep()
        (found,) = lake.lake.reader("orders").messages()
        assert (found.value, found.key, found.headers, found.tag) == ({"id": 1}, b"k", (("h", b"v"),), "t")


def test_an_extra_field_is_left_out_by_choice() -> None:
    with typed_lake("id int") as lake:
        lake.send({"id": 1, "more": 2}, extra="ignore")
        assert lake.values() == [{"id": 1}]
        with pytest.raises(InvalidArgument, match="extra must be 'refuse' or 'ignore'"):
            lake.lake.producer("orders", extra="keep")  # type: ignore[arg-type]


def test_settings_of_labels_are_checked() -> None:
    with penstock.connect("memory://") as lake:
        with pytest.raises(InvalidArgument, match="a topic without a schema has no fields to take"):
            lake.create_topic("orders", message_group="customer")
        with pytest.raises(InvalidArgument, match=r"expected: a field of type .*; observed: no such field"):
            lake.create_topic("orders", schema="id int", message_group="customer")
        with pytest.raises(InvalidArgument, match="observed: double"):
            lake.create_topic("orders", schema="id double", tag="id")


@pytest.mark.parametrize(
    ("schema", "error", "said"),
    [
        ("a int, A string", InvalidArgument, "two fields have the same name"),
        ("body string", InvalidArgument, "the name is a message's own"),
        (pa.schema([(f"c{number}", pa.int32()) for number in range(2000)]), LimitExceeded, "the schema has too many fields"),
        ("a " + "array<" * 20 + "int" + ">" * 20, LimitExceeded, "deep"),
        (5, InvalidArgument, "no schema can be made from this"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(schema: Any, error: type[Exception], said: str) -> None:
    with penstock.connect("memory://") as lake, pytest.raises(error, match=said):
        lake.create_topic("orders", schema=schema)


def test_creating_it_again_is_fine_with_any_version_it_has_had() -> None:
    with typed_lake("a int not null, b string") as lake:
        lake.lake.create_topic("orders", queues=1, schema=pa.schema([pa.field("a", pa.int32(), False), ("b", pa.string())]))
        lake.lake.evolve_topic("orders", "a bigint, c string", rename={"b": "c"})
        lake.lake.create_topic("orders", queues=1, schema="a int not null, b string")
        lake.lake.create_topic("orders", queues=1, schema="a bigint, c string")
        with pytest.raises(TopicExists, match="observed: c is missing; a: bigint there, string here") as caught:
            lake.lake.create_topic("orders", queues=1, schema="a string")
        assert caught.value.expected == "a bigint, c string"
        with pytest.raises(TopicExists, match="other settings"):
            lake.lake.create_topic("orders", queues=1)


def test_creating_it_again_needs_the_same_labels_by_any_of_their_names() -> None:
    with typed_lake("a int, b string", message_group="b", keys=["a"]) as lake:
        again: dict[str, Any] = {"queues": 1, "keys": ["a"]}
        lake.lake.evolve_topic("orders", "a bigint, c string", rename={"b": "c"})
        lake.lake.create_topic("orders", schema="a int, b string", message_group="b", **again)
        lake.lake.create_topic("orders", schema="a bigint, c string", message_group="c", **again)
        for schema, group in (("a bigint, c string", None), ("a bigint, c string", "a"), ("a int, b string", "a")):
            with pytest.raises(TopicExists, match="other settings"):
                lake.lake.create_topic("orders", schema=schema, message_group=group, **again)


def test_rows_that_do_not_fit_go_to_the_topic_beside_once_and_with_the_reason() -> None:
    with typed_lake("id int not null, name string") as lake:
        rows: list[Any] = [{"id": 1}, {"id": "x", "name": "bad"}, {"id": 3}, 7]
        with lake.lake.producer("orders", name="app", invalid="topic") as producer:
            for at in range(2):  # the bad row is a batch by itself, so that this topic's log does not tell of its sequence
                producer.send_row(rows[at], sequence=at).result(timeout=TIMEOUT_S)
        with lake.lake.producer("orders", name="app", invalid="topic") as producer:
            assert producer.last_sequence == 0
            receipts = [producer.send_row(row, sequence=at) for at, row in enumerate(rows)]
            results = [receipt.result(timeout=TIMEOUT_S) for receipt in receipts]
        assert [value["id"] for value in lake.values()] == [1, 3]
        assert [(one.offset, one.duplicate, one.invalid is not None) for one in results] == [
            (None, True, False),
            (None, False, True),
            (1, False, False),
            (None, False, True),
        ]
        beside = list(lake.lake.reader("orders-invalid").messages())
        assert [message.body for message in beside] == [b'{"id": "x", "name": "bad"}', b"7"]
        assert beside[0].properties == {
            "penstock-field": "id",
            "penstock-message-id": beside[0].properties["penstock-message-id"],
            "penstock-reason": "expected int, found the str 'x'",
            "penstock-topic": "orders",
        }
        with lake.lake.producer("orders", invalid="topic") as producer:
            batch = producer.send_batch(pa.table({"id": [5, None], "name": ["a", "b"]})).result(timeout=TIMEOUT_S)
            assert (batch.rows, batch.invalid) == (1, 1)
        assert [message.json() for message in lake.lake.reader("orders-invalid").messages()][2:] == [{"id": None, "name": "b"}]
        assert [value["id"] for value in lake.values()] == [1, 3, 5]


def test_a_bad_row_is_kept_as_json_of_plain_texts() -> None:
    with typed_lake() as lake:
        with lake.lake.producer("orders", invalid="topic") as producer:
            bad = {**ROW, "id": UUID(int=7), "customer": Colour.RED, "lines": AT.date()}
            assert producer.send_row(bad).result(timeout=TIMEOUT_S).invalid is not None
        (kept,) = lake.lake.reader("orders-invalid").messages()
        assert kept.json() == {
            "id": "00000000-0000-0000-0000-000000000007",
            "customer": "red",
            "amount": "1.50",
            "at": "2026-01-31T12:00:00.123456Z",
            "lines": "2026-01-31",
        }


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_data_frames_are_sent_as_columns(frames: str) -> None:
    frame = pytest.importorskip(frames).DataFrame({"id": [1, 2], "name": ["a", "b"]})
    with typed_lake("id bigint not null, name string") as lake, lake.lake.producer("orders") as producer:
        assert producer.send_batch(frame).result(timeout=TIMEOUT_S).rows == 2
        assert lake.values() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        with pytest.raises(InvalidArgument, match=r"this is one dict.*send_row"):
            producer.send_batch({"id": 3})
        with pytest.raises(InvalidArgument, match="this makes no Arrow table"):
            producer.send_batch(pa.chunked_array([[1]]))


def test_another_schema_is_shown_as_sql() -> None:
    with typed_lake("id int") as lake:
        lake.lake.create_topic("plain")
        with pytest.raises(TopicExists, match=r"'schema': 'id int'.*'schema': 'None'"):
            lake.lake.create_topic("plain", schema="id int")


def test_only_the_columns_asked_for_are_read() -> None:
    with typed_lake() as lake:
        lake.send(ROW, {"id": 2})
        lake.upkeep()
        lake.send({"id": 3, "customer": "c3"})
        reader = lake.lake.reader("orders")
        found = reader.to_arrow(columns=["offset", "value.customer"])
        assert found.to_pylist() == [{"offset": at, "value": {"customer": name}} for at, name in enumerate(["c1", None, "c3"])]
        assert reader.to_arrow(columns=["value"]).schema.field("value") == reader.to_arrow().schema.field("value")
        with pytest.raises(InvalidArgument, match=r"there are no columns value.nobody"):
            reader.to_arrow(columns=["value.nobody"])
        assert reader.to_pandas()["value"][0]["customer"] == "c1"


def test_messages_carry_keys_and_headers_and_tombstones_without_a_schema_too() -> None:
    with typed_lake("id int") as lake:
        lake.lake.create_topic("plain", queues=1)
        headers = [("h", b"1"), ("h", None), ("", b"")]
        messages = [
            penstock.Message(None, key=b"\xff"),
            penstock.Message(b"", headers=headers),
            penstock.Message(b"x"),
        ]
        with lake.lake.producer("plain") as producer:
            producer.send(messages[2]).result(timeout=TIMEOUT_S)
        lake.upkeep("plain")
        with lake.lake.producer("plain") as producer:
            producer.send_batch(messages).result(timeout=TIMEOUT_S)
        expected = [(b"x", None, ()), (None, b"\xff", ()), (b"", None, tuple(headers)), (b"x", None, ())]
        for _ in range(3):
            found = list(lake.lake.reader("plain").messages())
            assert [(one.body, one.key, one.headers) for one in found] == expected
            lake.upkeep("plain")
        with pytest.raises(InvalidArgument, match="the topic has no schema"):
            lake.lake.evolve_topic("plain", "id int")


@pytest.mark.parametrize("published", [False, True])
def test_a_condition_of_a_reader_names_fields_inside_of_fields(published: bool) -> None:
    with typed_lake("id int, place struct<city: string, at: struct<x: int>>") as lake:
        places: list[Any] = [{"city": "Ulm", "at": {"x": 1}}, {"city": "Bonn", "at": None}, None]
        lake.send(*({"id": number, "place": place} for number, place in enumerate(places)))
        if published:
            lake.upkeep()
        reader = lake.lake.reader("orders")
        assert [message.value["id"] for message in reader.messages(where="value.place.city = 'Bonn'")] == [1]
        assert reader.to_arrow(where="value.place.at.x = 1", columns=["value.id"]).to_pylist() == [{"value": {"id": 0}}]
        assert reader.to_arrow(where="value.place.at.x IS NULL", columns=["offset"]).to_pylist() == [{"offset": 1}, {"offset": 2}]
        with pytest.raises(InvalidArgument, match=r"value\.place\.zip"):
            reader.to_arrow(where="value.place.zip = 1")
