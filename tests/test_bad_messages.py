"""What is wrong with what is sent, each with the error a user sees: its type and what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log.limits import TopicLimits
from tests.lakes import bodies

Message = penstock.Message
LIMITS = TopicLimits(max_body_bytes=10, max_properties_bytes=30, max_properties=2, max_message_group_bytes=6)


BAD_MESSAGES: list[tuple[Any, type[penstock.PenstockError], str]] = [
    ("text", penstock.InvalidArgument, "send takes a penstock.Message.*str"),
    (b"bytes", penstock.InvalidArgument, "send takes a penstock.Message.*bytes"),
    (None, penstock.InvalidArgument, "send takes a penstock.Message.*NoneType"),
    ((b"x", "g", None, (), {}, None), penstock.InvalidArgument, "send takes a penstock.Message.*tuple"),
    (Message("text", message_group="g"), penstock.InvalidArgument, r"the body must be bytes.*str.*Message.json\(...\) encodes"),  # type: ignore[arg-type]
    (Message(b"x", "g", key="k"), penstock.InvalidArgument, "the key must be bytes.*'k'"),  # type: ignore[arg-type]
    (Message(b"x", "g", headers=[("h", "text")]), penstock.InvalidArgument, "header 'h' must be bytes or None"),  # type: ignore[list-item]
    (Message(b"x", "g", headers="h"), penstock.InvalidArgument, "headers must be a list"),  # type: ignore[arg-type]
    (Message(b"x", "g", headers=[b"h"]), penstock.InvalidArgument, "a header must be a .name, value. pair"),  # type: ignore[list-item]
    (Message(b"x", "g", headers=[(b"h", b"")]), penstock.InvalidArgument, "a header's name must be a text"),  # type: ignore[list-item]
    (Message(b"x", "g", key=b"k" * 31), penstock.LimitExceeded, "key and headers together is over the limit"),
    (Message.of({"a": 1}, message_group="g"), penstock.InvalidArgument, "the topic has no schema"),
    (Message(7, message_group="g"), penstock.InvalidArgument, "the body must be bytes.*int"),  # type: ignore[arg-type]
    (
        Message(b"x" * 11, message_group="g"),
        penstock.LimitExceeded,
        "the body is over the limit.*at most 10 bytes.*11 bytes.*body_bytes=",
    ),
    (Message(memoryview(b"abcdefghijkl").cast("I"), message_group="g"), penstock.LimitExceeded, "the body is over.*12 bytes"),  # type: ignore[arg-type]
    (
        Message(b"x", "1234567"),
        penstock.LimitExceeded,
        "the message group is over the limit.*at most 6 bytes.*7 bytes.*group_bytes=",
    ),
    (Message(b"x", "üüüü"), penstock.LimitExceeded, "the message group is over the limit.*8 bytes"),
    (Message(b"x", ""), penstock.InvalidArgument, "the message group must be visible characters.*''"),
    (Message(b"x", " "), penstock.InvalidArgument, "the message group must be visible characters"),
    (Message(b"x", "a\nb"), penstock.InvalidArgument, r"the message group must be visible characters.*\\n"),
    (Message(b"x", "\ud800"), penstock.InvalidArgument, "the message group must be visible characters"),
    (Message(b"x", 7), penstock.InvalidArgument, "the message group must be a string.*int"),  # type: ignore[arg-type]
    (Message(b"x", ["g"]), penstock.InvalidArgument, "the message group must be a string.*list"),  # type: ignore[arg-type]
    (
        Message(b"x"),
        penstock.MessageTypeMismatch,
        "topic takes FIFO messages, and this is a NORMAL message.*give the message a message_group",
    ),
    (
        Message(b"x", delivery_timestamp=datetime.now(UTC), message_group="g"),
        penstock.MessageTypeMismatch,
        "topic takes FIFO messages, and this is a DELAY message.*leave delivery_timestamp and delay out",
    ),
    (Message(b"x", tag="a|b", message_group="g"), penstock.InvalidArgument, r"a tag must not contain '\|'.*a\|b"),
    (Message(b"x", tag="", message_group="g"), penstock.InvalidArgument, "the tag must be visible characters"),
    (Message(b"x", tag=7, message_group="g"), penstock.InvalidArgument, "the tag must be a string.*int"),  # type: ignore[arg-type]
    (
        Message(b"x", tag="t" * 31, message_group="g"),
        penstock.LimitExceeded,
        "properties, tag and keys together.*at most 30 bytes.*31 bytes",
    ),
    (Message(b"x", keys="order", message_group="g"), penstock.InvalidArgument, "keys must be a list of strings.*str"),  # type: ignore[arg-type]
    (Message(b"x", keys={"a"}, message_group="g"), penstock.InvalidArgument, "keys must be a list of strings.*set"),  # type: ignore[arg-type]
    (Message(b"x", keys=[7], message_group="g"), penstock.InvalidArgument, "a key must be a string.*int"),  # type: ignore[list-item]
    (Message(b"x", keys=[""], message_group="g"), penstock.InvalidArgument, "a key must be visible characters"),
    (
        Message(b"x", keys=["k"] * 31, message_group="g"),
        penstock.LimitExceeded,
        "properties, tag and keys together.*at most 30 bytes.*31 bytes",
    ),
    (Message(b"x", properties="a", message_group="g"), penstock.InvalidArgument, "properties must be a mapping"),  # type: ignore[arg-type]
    (Message(b"x", properties={"a": 1}, message_group="g"), penstock.InvalidArgument, "property 'a' must be a string.*int"),  # type: ignore[dict-item]
    (Message(b"x", properties={1: "a"}, message_group="g"), penstock.InvalidArgument, "a property's name must be a string"),  # type: ignore[dict-item]
    (Message(b"x", properties={"": "a"}, message_group="g"), penstock.InvalidArgument, "a property's name must be visible"),
    (Message(b"x", properties={"a": "\x00"}, message_group="g"), penstock.InvalidArgument, "property 'a' must be visible"),
    (
        Message(b"x", properties=dict.fromkeys("abc", ""), message_group="g"),
        penstock.LimitExceeded,
        "number of properties.*at most 2.*3",
    ),
    (
        Message(b"x", properties={"a": "x" * 30}, message_group="g"),
        penstock.LimitExceeded,
        "properties, tag and keys together.*31 bytes",
    ),
]


def test_a_bad_message_is_refused_and_nothing_of_it_is_sent() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2, limits=LIMITS)
        with lake.producer("orders") as producer:
            for number, (message, error, said) in enumerate(BAD_MESSAGES):
                producer.send(Message(b"%d" % number, message_group="g"))
                for send in (producer.send, lambda message: producer.send_batch([Message(b"no", message_group="g"), message])):
                    with pytest.raises(error, match=said) as caught:
                        send(message)
                    assert caught.value.object in ("orders", "message 1")
        assert bodies(lake) == [b"%d" % number for number in range(len(BAD_MESSAGES))]


def test_a_normal_topic_takes_no_groups() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with lake.producer("orders") as producer:
            with pytest.raises(penstock.MessageTypeMismatch, match=r"takes NORMAL messages, and this is a FIFO message.*leave"):
                producer.send(Message(b"x", message_group="g"))
            with pytest.raises(penstock.MessageTypeMismatch, match=r"this is a FIFO message.*row 1"):
                producer.send_batch(pa.table({"body": [b"a", b"b"], "message_group": [None, "g"]}))


def table(**columns: Any) -> pa.Table:
    given = {"body": pa.array([b"a", b"b"]), "message_group": pa.array(["g", "h"]), **columns}
    return pa.table({name: values for name, values in given.items() if values is not None})


HEADERS = penstock.log.SEND_SCHEMA.field("headers").type
MAPS = pa.map_(pa.string(), pa.string())
TIME = pa.timestamp("us", "UTC")
BAD_TABLES: list[tuple[Any, type[penstock.PenstockError], str]] = [
    (
        table(body=None),
        penstock.InvalidArgument,
        "the column body is missing.*expected: queue, message_group.*observed: message_group",
    ),
    (table(message_id=["a", "b"]), penstock.InvalidArgument, r"unknown columns \['message_id'\]"),
    (table(Body=["a", "b"]), penstock.InvalidArgument, r"unknown columns \['Body'\]"),
    (table(body=[1, 2]), penstock.InvalidArgument, "column body has the wrong type.*expected: binary.*observed: int64"),
    (table(queue=["1", "x"]), penstock.InvalidArgument, "column queue has the wrong type.*expected: int32.*observed: string"),
    (table(queue=[0, 2**40]), penstock.InvalidArgument, "column queue has the wrong type"),
    (table(keys=["a", "b"]), penstock.InvalidArgument, "column keys has the wrong type"),
    (table(properties=["a", "b"]), penstock.InvalidArgument, "column properties has the wrong type"),
    (
        table(key=[b"", b"x" * 31]),
        penstock.LimitExceeded,
        "key and headers together are over 30 bytes.*row 1.*nothing of the batch",
    ),
    (table(headers=pa.array([[], [(None, b"")]], HEADERS)), penstock.InvalidArgument, "a header's name is null.*row 1"),
    (table(headers=pa.array([[], [("h", b"")] * 3], HEADERS)), penstock.LimitExceeded, "more than 2 headers.*row 1"),
    (table(headers=pa.array([[("h", b"x" * 30)], None], HEADERS)), penstock.LimitExceeded, "over 30 bytes.*row 0"),
    (table(message_group=["g", None]), penstock.MessageTypeMismatch, "takes FIFO messages.*row 1"),
    (table(message_group=None), penstock.MessageTypeMismatch, "takes FIFO messages.*row 0"),
    (table(message_group=["g", ""]), penstock.InvalidArgument, "the message group must be visible characters.*row 1"),
    (table(message_group=["g", "1234567"]), penstock.LimitExceeded, "the message group is over 6 bytes.*row 1.*group_bytes="),
    (
        pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"]), pa.array(["g"])], ["body", "body", "message_group"]),
        penstock.InvalidArgument,
        r"columns \['body'\] are there twice",
    ),
    (table(body=[b"a", b"x" * 11]), penstock.LimitExceeded, "the body is over 10 bytes.*row 1"),
    (table(queue=pa.array([0, 2], pa.int32())), penstock.InvalidArgument, "the topic has queues 0 to 1.*row 1"),
    (table(queue=pa.array([-1, 0], pa.int32())), penstock.InvalidArgument, "the topic has queues 0 to 1.*row 0"),
    (table(tag=["a", "b|c"]), penstock.InvalidArgument, r"a tag must not contain '\|'.*row 1"),
    (table(message_group=["g", "a\tb"]), penstock.InvalidArgument, "the message group must be visible characters.*row 1"),
    (table(tag=["a", ""]), penstock.InvalidArgument, "the tag must be visible characters.*row 1"),
    (table(keys=[["a"], ["b", " "]]), penstock.InvalidArgument, "a key must be visible characters.*row 1"),
    (table(keys=[["a", None], ["b"]]), penstock.InvalidArgument, "a key must be visible characters.*row 0"),
    (table(keys=[[], ["k"] * 31]), penstock.LimitExceeded, "properties, tag and keys together are over 30 bytes.*row 1"),
    (table(keys=[["gone"], ["a"], ["\n"]], body=[b""] * 3, message_group=["g"] * 3).slice(1), penstock.InvalidArgument, "row 1"),
    (table(properties=pa.array([[], [("", "x")]], MAPS)), penstock.InvalidArgument, "a property's name must be visible.*row 1"),
    (table(properties=pa.array([[("a", "x\0")], []], MAPS)), penstock.InvalidArgument, "a property's value must be visible.*row 0"),
    (table(tag=["a", "x" * 31]), penstock.LimitExceeded, "properties, tag and keys together are over 30 bytes.*row 1"),
    (
        table(properties=pa.array([[], [("a", ""), ("b", ""), ("c", "")]], MAPS)),
        penstock.LimitExceeded,
        "more than 2 properties.*row 1",
    ),
    (table(properties=pa.array([[], [("a", "x" * 30)]], MAPS)), penstock.LimitExceeded, "over 30 bytes.*row 1"),
    (table(keys=[["a"], ["x" * 31]]), penstock.LimitExceeded, "over 30 bytes.*row 1"),
    (table(born_timestamp=pa.array([None, -1], TIME)), penstock.InvalidArgument, "born_timestamp is before 1970.*row 1"),
    (table(born_timestamp=pa.array([2**60, 0], TIME)), penstock.InvalidArgument, "born_timestamp is behind the year 9999.*row 0"),
    (table(born_timestamp=pa.array([0, 0], pa.timestamp("us"))), penstock.InvalidArgument, "column born_timestamp has no zone"),
    (table(born_timestamp=[1, 2]), penstock.InvalidArgument, "column born_timestamp has the wrong type"),
    ({"body": [b"a"]}, penstock.InvalidArgument, "send_batch takes many rows, and this is one dict"),
    (7, penstock.InvalidArgument, "send_batch takes Arrow data or messages.*int"),
]


@pytest.mark.parametrize("number", range(len(BAD_TABLES)))
def test_a_bad_batch_is_refused_as_a_whole_and_its_row_named(number: int) -> None:
    data, error, said = BAD_TABLES[number]
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2, limits=LIMITS)
        with lake.producer("orders") as producer:
            with pytest.raises(error, match=said):
                producer.send_batch(data)
            producer.send_batch(table(body=[b"good", b"rows"]))
        assert sorted(bodies(lake)) == [b"good", b"rows"]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("", penstock.InvalidArgument, "a producer's name must be visible characters"),
        ("a\tb", penstock.InvalidArgument, "a producer's name must be visible characters"),
        (7, penstock.InvalidArgument, "a producer's name must be visible characters.*7"),
        ("x" * 129, penstock.LimitExceeded, "name is too long.*at most 128 bytes"),
    ],
)
def test_a_producer_that_cannot_be_called_so(name: Any, error: type[penstock.PenstockError], said: str) -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with pytest.raises(error, match=said):
            lake.producer("orders", name=name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"linger": "5"}, "linger is no duration.*a timedelta or a number of seconds.*'5'"),
        ({"linger": timedelta(-1)}, "linger is too short.*0 or more.*-24 h"),
        ({"delivery_timeout": None}, "delivery_timeout is no duration.*None"),
        ({"memory_bytes": 0}, "memory_bytes must be a positive whole number"),
        ({"batch_bytes": 1.5}, "batch_bytes must be a positive whole number"),
        ({"on_full": "drop"}, "on_full must be 'block' or 'raise'.*drop"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with pytest.raises(penstock.InvalidArgument, match=said):
            lake.producer("orders", **options)


def test_key_and_headers_may_have_limits_of_their_own() -> None:
    limits = TopicLimits(max_headers_bytes=2**20, max_headers=10_000)
    headers = [("h", b"v" * 99)] * 10_000
    key = bytes(2**20 - 1_000_000)
    columns = {"body": [b"2"], "key": [key], "headers": pa.array([headers], HEADERS)}
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", queues=1, limits=limits)
        with lake.producer("orders") as producer:
            producer.send(Message(b"1", key=key, headers=headers))
            producer.send_batch(pa.table(columns)).result()
            with pytest.raises(penstock.LimitExceeded, match=r"key and headers together.*max_headers_bytes="):
                producer.send(Message(b"x", key=key + b"k", headers=headers))
            with pytest.raises(penstock.LimitExceeded, match=r"the number of headers.*at most 10000 headers.*max_headers="):
                producer.send(Message(b"x", headers=[*headers, ("h", None)]))
            with pytest.raises(penstock.LimitExceeded, match="properties, tag and keys together"):
                producer.send(Message(b"x", tag="t" * 16385))
        assert [(one.key, list(one.headers)) for one in lake.reader("orders").messages()] == [(key, headers)] * 2
        assert lake.topics()["orders"].settings.limits == limits


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"max_headers_bytes": 2**20 + 1}, penstock.LimitExceeded, "limit max_headers_bytes is too much.*at most 1,048,576"),
        ({"max_headers": 10_001}, penstock.LimitExceeded, "limit max_headers is too much.*at most 10,000"),
        ({"max_headers": 0}, penstock.InvalidArgument, "limit max_headers must be a positive whole number"),
        ({"max_headers_bytes": "1"}, penstock.InvalidArgument, "limit max_headers_bytes must be a positive whole number"),
    ],
)
def test_limits_of_headers_that_cannot_be(given: dict[str, Any], error: type[penstock.PenstockError], said: str) -> None:
    with pytest.raises(error, match=said):
        TopicLimits(**given)


def test_labels_may_take_all_of_their_room() -> None:
    """As with RocketMQ: tag, keys and properties have one limit together, and none of each."""
    tag, keys = "t" * 16384, [f"{number:04}" for number in range(4096)]
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", queues=1)
        with lake.producer("orders") as producer:
            producer.send(Message(b"1", tag=tag))
            producer.send(Message(b"2", keys=keys))
            producer.send_batch(pa.table({"body": [b"3", b"4"], "tag": [tag, None], "keys": [[], keys]})).result()
            with pytest.raises(penstock.LimitExceeded, match=r"together.*at most 16384 bytes"):
                producer.send(Message(b"x", tag=tag + "t"))
        with lake.reader("orders") as reader:
            assert [(one.tag, list(one.keys)) for one in reader.messages()] == [(tag, []), (None, keys)] * 2
