"""From messages to rows: whatever is sent, one by one or as a table, is what stands in the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.log import LOG_SCHEMA, TopicLimits
from penstock.log.errors import PenstockError
from penstock.log.message.message import check_message
from tests.lakes import read_all
from tests.thorough import examples

Message = penstock.Message
VISIBLE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)
TAGS = VISIBLE.filter(lambda tag: "|" not in tag)
MESSAGES = st.builds(
    Message,
    body=st.none() | st.binary(max_size=20),
    message_group=VISIBLE,
    tag=st.none() | TAGS,
    keys=st.lists(VISIBLE, max_size=3),
    properties=st.dictionaries(VISIBLE, st.just("") | VISIBLE, max_size=3),
    delivery_timestamp=st.none(),
    delay=st.none(),
    key=st.none() | st.binary(max_size=6),
    headers=st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.none() | st.binary(max_size=4)), max_size=3
    ),
    value=st.none(),
    message_id=st.none(),
)


def sent_and_read(send: Any, queues: int) -> list[penstock.MessageView]:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=queues)
        with lake.producer("orders") as producer:
            send(producer)
        return read_all(lake)


def content(one: penstock.Message | penstock.MessageView) -> tuple[Any, ...]:
    body = None if one.body is None else bytes(one.body)
    return body, one.message_group, one.tag, tuple(one.keys), dict(one.properties), one.key, tuple(one.headers)


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(MESSAGES, max_size=12), st.integers(1, 5))
def test_messages_and_tables_are_stored_alike_and_as_they_were_sent(messages: list[Message], queues: int) -> None:
    table = pa.table(
        {
            name: pa.array([getattr(message, name) for message in messages], LOG_SCHEMA.field(name).type)
            if name != "properties"
            else pa.array([list(message.properties.items()) for message in messages], LOG_SCHEMA.field(name).type)
            for name in ("body", "message_group", "tag", "keys", "properties", "key")
        }
    )
    headers = [[{"key": name, "value": value} for name, value in message.headers] for message in messages]
    table = table.append_column("headers", pa.array(headers, LOG_SCHEMA.field("headers").type))
    one_by_one = sent_and_read(lambda producer: [producer.send(message) for message in messages], queues)
    as_list = sent_and_read(lambda producer: producer.send_batch(messages), queues)
    as_table = sent_and_read(lambda producer: producer.send_batch(table), queues)
    expected: dict[int, list[Any]] = {queue: [] for queue in range(queues)}
    for message in messages:
        expected[penstock.log.queue_of(message.message_group or "", queues)].append(content(message))
    for found in (one_by_one, as_list, as_table):
        for queue in range(queues):
            assert [content(one) for one in found if one.queue == queue] == expected[queue]
        assert len({one.message_id for one in found}) == len(messages)


LOOSE: Any = st.one_of(
    st.none(), st.text(max_size=5), st.binary(max_size=5), st.integers(), st.lists(st.text(max_size=3) | st.none()), st.just({})
)


@settings(max_examples=examples(300), deadline=None)
@given(st.builds(Message, *(LOOSE,) * 7))
def test_any_value_anywhere_is_taken_or_refused_with_an_error_of_ours(message: Message) -> None:
    try:
        check_message(message, penstock.MessageType.FIFO, TopicLimits())
    except PenstockError:
        return
    (found,) = sent_and_read(lambda producer: producer.send(message), 1)
    assert content(found) == content(message)


def test_ids_count_on_and_look_like_ids() -> None:
    found = sent_and_read(lambda producer: [producer.send(Message(b"x", message_group="g")) for _ in range(300)], 1)
    numbers = np.array([int(one.message_id, 16) for one in found], dtype=object)
    assert all(len(one.message_id) == 32 for one in found)
    assert list(numbers - numbers[0]) == list(range(300))
