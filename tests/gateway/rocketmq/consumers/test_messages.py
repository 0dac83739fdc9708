"""Messages as SDKs read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import md5

from penstock.gateway.rocketmq.consumers.messages import delivered_at, message_of
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.headers import BORN_HOST, TRACE_CONTEXT
from penstock.log import MessageType, MessageView

BORN = datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)
RESOURCE = pb.Resource(resource_namespace="shop", name="orders")


def view(**others: object) -> MessageView:
    fields: dict[str, object] = {
        "topic": "shop--orders",
        "queue": 3,
        "offset": 12,
        "message_id": "01AB",
        "message_group": None,
        "tag": None,
        "keys": (),
        "properties": {},
        "body": b"paid",
        "born_timestamp": BORN,
        "store_timestamp": BORN + timedelta(milliseconds=5),
        "delivery_timestamp": None,
        "producer": "p",
        "receipt_handle": "handle",
    }
    return MessageView(**{**fields, **others})  # type: ignore[arg-type]  # a MessageView's


def given(one: MessageView, topic_type: MessageType = MessageType.NORMAL) -> pb.Message:
    return message_of(one, RESOURCE, topic_type, store_host="gateway", invisible=timedelta(seconds=15))


def test_what_every_sdk_needs() -> None:
    message = given(view(keys=("k1", "k2"), tag="new", properties={"region": "north"}, delivery_attempt=3))
    system = message.system_properties
    assert (message.topic, message.body, dict(message.user_properties)) == (RESOURCE, b"paid", {"region": "north"})
    assert (system.body_encoding, system.body_digest.type) == (pb.IDENTITY, pb.MD5)
    assert system.body_digest.checksum == md5(b"paid").hexdigest().upper()
    assert (system.message_id, system.tag, list(system.keys)) == ("01AB", "new", ["k1", "k2"])
    assert (system.queue_id, system.queue_offset, system.delivery_attempt, system.receipt_handle) == (3, 12, 3, "handle")
    assert system.born_timestamp.ToMilliseconds() == round(BORN.timestamp() * 1000)
    assert system.store_timestamp.ToMilliseconds() == round(BORN.timestamp() * 1000) + 5
    assert system.invisible_duration.seconds == 15


def test_an_attempt_is_none_beyond_the_groups_last_one() -> None:
    def attempt(number: int, attempts_max: int | None) -> int:
        message = message_of(
            view(delivery_attempt=number), RESOURCE, MessageType.FIFO, store_host="gateway", attempts_max=attempts_max
        )
        return message.system_properties.delivery_attempt

    assert [attempt(number, 2) for number in (1, 2, 3)] == [1, 2, 2]
    assert attempt(3, None) == 3


def test_what_is_not_stated_is_not_there() -> None:
    system = given(view(receipt_handle="")).system_properties
    absent = ("tag", "message_group", "delivery_timestamp", "receipt_handle", "trace_context", "dead_letter_queue")
    assert [name for name in absent if system.HasField(name)] == []


def test_the_type_of_a_message_is_known_from_it() -> None:
    assert given(view(message_group="a")).system_properties.message_type == pb.FIFO
    assert given(view(delivery_timestamp=BORN)).system_properties.message_type == pb.DELAY
    assert given(view()).system_properties.message_type == pb.NORMAL
    assert given(view(), MessageType.TRANSACTION).system_properties.message_type == pb.TRANSACTION


def test_a_tombstone_is_an_empty_body() -> None:
    message = given(view(body=None))
    assert (message.body, message.system_properties.body_digest.checksum) == (b"", md5(b"").hexdigest().upper())


def test_headers_of_the_protocol_come_back_where_they_were() -> None:
    system = given(
        view(headers=((BORN_HOST, b"10.0.0.1"), (TRACE_CONTEXT, b"00-ab"), ("other", b"x"), ("none", None)))
    ).system_properties
    assert (system.born_host, system.trace_context) == ("10.0.0.1", "00-ab")


def test_a_dead_letter_says_where_it_comes_from() -> None:
    dead = given(
        view(properties={"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "01AB"})
    ).system_properties.dead_letter_queue
    assert (dead.topic, dead.message_id) == ("orders", "01AB")


def test_the_last_frame_says_when() -> None:
    assert delivered_at(1_234_567).delivery_timestamp.ToMilliseconds() == 1_234_567
