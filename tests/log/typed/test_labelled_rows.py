"""Message groups, tags and keys that come from fields, whatever becomes of the names of these fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log import TopicLimits
from penstock.log.errors import InvalidArgument
from tests.lakes import TIMEOUT_S
from tests.log.typed.lakes import TypedLake, typed_lake

SCHEMA = "id int, who struct<name: string, mail: string>, kind string, a string, b string"
LABELS: dict[str, Any] = {"message_group": "who.name", "tag": "kind", "keys": ["a", "b"], "message_type": "FIFO"}


def labels(lake: TypedLake) -> list[tuple[Any, ...]]:
    return [(one.message_group, one.tag, one.keys) for one in lake.lake.reader("orders").messages()]


def test_labels_follow_their_fields_through_renames() -> None:
    with typed_lake(SCHEMA, **LABELS) as lake:
        lake.send({"id": 1, "who": {"name": "ann"}, "kind": "k", "a": "x"})
        later = "id int, person struct<called: string, mail: string, name: string>, sort string, kind string, c string, b string, a string"
        renamed = {"who": "person", "who.name": "called", "kind": "sort", "a": "c"}
        lake.lake.evolve_topic("orders", later, rename=renamed)
        other = {"person": {"called": "bob", "name": "wrong"}, "sort": "s", "kind": "wrong", "c": "y", "b": "z", "a": "wrong"}
        lake.send(other)
        with lake.lake.producer("orders") as producer:
            columns = {name: pa.array([value]) for name, value in other.items()}
            producer.send_batch(pa.table(columns)).result(timeout=TIMEOUT_S)
        assert labels(lake) == [("ann", "k", ("x",)), ("bob", "s", ("y", "z")), ("bob", "s", ("y", "z"))]
        with pytest.raises(InvalidArgument, match="cannot retire"):
            lake.lake.evolve_topic("orders", later.replace("called: string, ", ""), retire=["person.called"])
        with pytest.raises(InvalidArgument, match="cannot retire"):
            lake.lake.evolve_topic("orders", "id int", retire=["person", "sort", "kind", "c", "b", "a"])


def test_tombstones_have_the_labels_that_their_sender_gives_and_rows_those_of_their_fields() -> None:
    with typed_lake(SCHEMA, **LABELS) as lake:
        messages = [
            penstock.Message.of({"who": {"name": "ann"}, "b": "w"}),
            penstock.Message(None, "bob", "gone"),
            penstock.Message.of({"who": {"name": "cid"}, "kind": "k", "a": "x", "b": "y"}),
        ]
        with lake.lake.producer("orders") as producer:
            producer.send_batch(messages).result(timeout=TIMEOUT_S)
            for message in messages:
                producer.send(message).result(timeout=TIMEOUT_S)
        expected = [("ann", None, ("w",)), ("bob", "gone", ()), ("cid", "k", ("x", "y"))]
        assert labels(lake) == expected * 2


def test_a_row_is_as_large_as_a_body_may_be_and_no_larger() -> None:
    with typed_lake("id int, t string", limits=TopicLimits(max_body_bytes=100)) as lake:
        sent = lake.send({"id": 1, "t": "x" * 96}, {"id": 2, "t": "x" * 97}, invalid="topic", linger=0.2)
        assert [one.invalid for one in sent] == [None, "the row: expected at most 100 bytes, found 101 bytes"]
        lake.send({"id": 3, "t": "x" * 96})


BAD_LABELS: list[tuple[dict[str, Any], str]] = [
    ({"who": None}, "who.name: expected a message group, found NULL"),
    ({"who": {"name": "x" * 64, "mail": None}}, "who.name: expected a message group of at most 63 bytes"),
    ({"who": {"name": "a\u200bb", "mail": None}}, "who.name: expected a message group of visible characters"),
    ({"who": {"name": " ", "mail": None}}, "who.name: expected a message group of visible characters"),
    ({"kind": "a|b"}, r"kind: expected a tag without |, found 'a|b'"),
    ({"kind": "a\nb"}, "kind: expected a tag of visible characters"),
]


@pytest.mark.parametrize(("fields", "said"), BAD_LABELS)
@pytest.mark.parametrize("sequences", [False, True])
def test_a_row_whose_label_cannot_be_goes_to_the_topic_beside(fields: dict[str, Any], said: str, sequences: bool) -> None:
    """All of its types are right, so that nothing is known of it before its block has become columns."""
    good: dict[str, Any] = {"id": 1, "who": {"name": "x" * 63, "mail": None}, "kind": "k", "a": "x", "b": None}
    with typed_lake(SCHEMA, **LABELS) as lake:
        with lake.lake.producer("orders", invalid="topic", linger=0.2, name="n" if sequences else None) as producer:
            rows = [good, good | fields, good]
            receipts = [producer.send_row(row, sequence=at if sequences else None) for at, row in enumerate(rows)]
            sent = [receipt.result(timeout=TIMEOUT_S) for receipt in receipts]
        assert [one.invalid is None for one in sent] == [True, False, True]
        assert str(sent[1].invalid).startswith(said)
        assert [one.json() for one in lake.lake.reader("orders-invalid").messages()] == [good | fields]
        assert lake.values() == [good, good]
