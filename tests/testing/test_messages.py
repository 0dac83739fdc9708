"""Messages for tests of listeners are as those of a lake."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import penstock
from penstock.testing import memory_lake, message

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Order:
    id: int
    customer: str


def test_every_field_can_be_given() -> None:
    given: dict[str, Any] = {
        "topic": "orders",
        "queue": 3,
        "offset": 7,
        "message_id": "id-1",
        "message_group": "user-7",
        "tag": "paid",
        "keys": ("order-1",),
        "properties": {"amount": "10"},
        "body": b"paid",
        "born_timestamp": NOON,
        "store_timestamp": NOON + timedelta(seconds=1),
        "delivery_timestamp": NOON + timedelta(seconds=2),
        "producer": "shop",
        "key": b"k",
        "headers": (("name", b"value"),),
        "value": None,
        "delivery_attempt": 2,
        "epoch": 5,
        "receipt_handle": "handle",
    }
    assert given.keys() == set(penstock.MessageView._fields)
    assert message(**given) == penstock.MessageView(**given)
    assert message(**given).fencing_token == (3, 5, 7, 2)


def test_what_is_not_given_is_as_a_consumer_gets_it() -> None:
    sent = penstock.Message(b"paid", message_group="user-7", tag="paid", keys=["order-1"], properties={"amount": "10"})
    with memory_lake() as lake:
        lake.create_topic("test", message_type="FIFO", queues=1)
        with lake.producer("test") as producer:
            producer.send(sent)
        with lake.simple_consumer("test", group="g") as consumer:
            (real,) = consumer.receive(1)
    made = message(b"paid", message_group="user-7", tag="paid", keys=["order-1"], properties={"amount": "10"})
    own = ("message_id", "born_timestamp", "store_timestamp", "producer", "receipt_handle", "epoch")
    assert made._replace(**{name: getattr(real, name) for name in own}) == real
    assert [type(value) for value in made] == [type(value) for value in real]
    assert len(made.message_id) == len(real.message_id)
    assert made.born_timestamp == made.store_timestamp <= datetime.now(UTC)
    assert made.message_id != message(b"paid").message_id


def test_a_row_and_a_tombstone() -> None:
    row = message(value={"id": 7, "customer": "ann"})
    assert (row.body, row.value, row.json()) == (None, {"id": 7, "customer": "ann"}, {"id": 7, "customer": "ann"})
    assert row.as_(Order) == Order(7, "ann")
    assert row.content == b'{"id":7,"customer":"ann"}'
    tombstone = message(None, key=b"k")
    assert (tombstone.body, tombstone.value, tombstone.key) == (None, None, b"k")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"body": "paid"}, "the body must be bytes"),
        ({"keys": "order-7"}, "keys must be a list of strings"),
        ({"tag": "a|b"}, "a tag must not contain"),
        ({"message_group": ""}, "the message group must be visible characters"),
        ({"properties": {"amount": 10}}, "property 'amount' must be a string"),
        ({"message_id": "a b"}, "a message's id is no id"),
        ({"body": b"x", "value": {"id": 1}}, "a message with a value has no body"),
    ],
)
def test_what_cannot_be_sent_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=said):
        message(**given)


def test_a_message_over_the_limits_is_refused() -> None:
    with pytest.raises(penstock.LimitExceeded, match="the body is over the limit"):
        message(b"x" * (penstock.TopicLimits().max_body_bytes + 1))
