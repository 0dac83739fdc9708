"""Topics of type MIXED: messages with and without a message group, and those of transactions, side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import ConsumeResult, Message, MessageView
from penstock.log import queue_of
from tests.consumers.heard import SUCCESS, Heard, consuming, letters, send, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

MIXED: dict[str, Any] = {"message_type": "MIXED", "queues": 4}


@pytest.fixture
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", **MIXED)
        yield lake


def stored(lake: penstock.Lake) -> dict[bytes, MessageView]:
    return {one.body: one for one in lake.reader("orders").messages()}


def test_messages_with_and_without_a_group_are_taken_and_groups_have_their_queue(lake: penstock.Lake) -> None:
    rows = pa.table({"body": [b"c", b"d", b"e"], "message_group": ["g", None, None]})
    with lake.producer("orders") as producer:
        producer.send(Message(b"a", message_group="g"))
        producer.send(Message(b"b"))
        producer.send_batch(rows)
        producer.send_batch([Message(b"f"), Message(b"g", message_group="g")])
    found = stored(lake)
    assert sorted(found) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    grouped = [one for one in found.values() if one.message_group is not None]
    assert [one.body for one in grouped] == [b"a", b"c", b"g"]
    assert {one.queue for one in grouped} == {queue_of("g", 4)}


def test_a_delayed_message_is_refused(lake: penstock.Lake) -> None:
    said = "takes MIXED messages, and this is a DELAY message.*expected: NORMAL, FIFO, TRANSACTION; observed: DELAY.*type DELAY"
    rows = pa.table({"body": [b"x"], "delivery_timestamp": pa.array([datetime.now(UTC)], pa.timestamp("us", "UTC"))})
    with lake.producer("orders") as producer:
        with pytest.raises(penstock.MessageTypeMismatch, match=said):
            producer.send(Message(b"x", delay=1))
        with pytest.raises(penstock.MessageTypeMismatch, match="takes MIXED messages, and this is a DELAY message"):
            producer.send_batch(rows)
    assert stored(lake) == {}


def test_a_transaction_sends_messages_without_a_group(lake: penstock.Lake) -> None:
    with lake.check_transactions("shop", lambda _: penstock.TransactionResolution.UNKNOWN):
        with lake.transaction(producer_group="shop") as transaction:
            (message_id,) = transaction.send("orders", Message(b"x"))
            with pytest.raises(penstock.MessageTypeMismatch, match="a message of a transaction cannot have a message group"):
                transaction.send("orders", Message(b"y", message_group="g"))
            assert stored(lake) == {}
            transaction.commit()
        with lake.producer("orders") as producer:
            plain = producer.send(Message(b"y")).result(TIMEOUT_S)
        (place,) = lake.trace(message_id).places
        assert place.transaction is not None
        assert (place.transaction.id, place.transaction.decision) == (transaction.id, "committed")
        (place,) = lake.trace(plain.message_id).places
        assert place.transaction is None
    assert sorted(stored(lake)) == [b"x", b"y"]


def test_orderly_groups_keep_the_order_of_each_message_group_and_of_the_messages_without_one() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="MIXED", queues=1)
        send(lake, "a  a b")
        others = threading.Event()

        def answer(message: MessageView) -> object:
            if message.body == b"0":
                assert others.wait(TIMEOUT_S), "message groups run on beside the messages without one"
            if message.body == b"b0":
                others.set()
            return SUCCESS

        heard = Heard(answer)
        with consuming(lake, heard, delivery_order="ORDERLY"):
            heard.until_done(6)
            until_settled(lake)
    assert [one.body for one in heard.begun if one.message_group is None] == [b"0", b"1", b"2"]
    assert heard.offsets("a") == [0, 3]
    assert heard.most[0, None] == heard.most[0, "a"] == 1


def test_dead_letters_of_either_kind_go_back() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", **MIXED)
        send(lake, "a ")
        with lake.push_consumer("orders", group="billing", listener=lambda _: ConsumeResult.DEAD_LETTER):
            wait_until(lambda: len(letters(lake)) == 2, "two dead letters")
        assert lake.redrive("billing").sent == 2
        found = [(one.body, one.message_group) for one in lake.reader("orders").messages()]
    assert sorted(found, key=str) == [(b"0", None), (b"0", None), (b"a0", "a"), (b"a0", "a")]


def test_rows_of_a_schema_whose_group_is_null_are_taken() -> None:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", **MIXED, schema="id bigint not null, user string", message_group="user")
        with lake.producer("orders") as producer:
            producer.send_row({"id": 1, "user": "ann"})
            producer.send_batch([{"id": 2, "user": None}, Message(None)])
        found = list(lake.reader("orders").messages())
    assert {one.message_group for one in found} == {"ann", None}
    assert len(found) == 3
