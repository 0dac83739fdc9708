"""What public objects show of themselves: short, and what one looks for."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Iterator

import pytest

import penstock
from penstock import aio
from penstock.spark.errors import CleanTraceback
from tests.lakes import TIMEOUT_S
from tests.test_wrong_arguments import listen, unknown


@pytest.fixture
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", queues=1)
        yield lake


def test_a_lake_shows_its_url_without_secrets(lake: penstock.Lake) -> None:
    assert repr(lake) == "<Lake memory://>"

    async def connected() -> str:
        lake = aio.connect(
            "s3://shop/prod",
            options={"region": "eu-west-1", "access_key_id": "AKIA", "secret_access_key": "hidden"},
            read_only=True,
        )
        return repr(await lake.__aenter__())

    shown = asyncio.run(connected())
    assert re.fullmatch(r"<Lake s3://shop/prod\S*, read-only>", shown)
    assert "hidden" not in shown
    assert "AKIA" not in shown
    closed = penstock.connect("memory://")
    closed.close()
    assert repr(closed) == "<Lake memory://, closed>"


def test_what_a_lake_opens_shows_topic_group_and_state(lake: penstock.Lake) -> None:
    with lake.producer("orders") as producer, lake.producer("orders", name="billing") as named:
        assert repr(producer) == "<Producer of orders>"
        assert repr(named) == "<Producer of orders, name billing>"
    assert repr(producer) == "<Producer of orders, closed>"
    with lake.reader("orders") as reader:
        assert repr(reader) == "<Reader of orders>"
    assert repr(reader) == "<Reader of orders, closed>"
    with lake.push_consumer("orders", group="billing", listener=listen) as push:
        assert repr(push) == "<PushConsumer of group billing>"
    assert repr(push) == "<PushConsumer of group billing, closed>"
    with lake.check_transactions("cashiers", unknown) as checking:
        assert repr(checking) == "<Checking for producer group cashiers>"
        with lake.transaction(producer_group="cashiers") as transaction:
            assert repr(transaction) == "<Transaction of producer group cashiers>"
            transaction.rollback()
        assert repr(transaction) == "<Transaction of producer group cashiers, rolled back>"


def test_a_receipt_shows_its_message_and_how_it_stands(lake: penstock.Lake) -> None:
    with lake.producer("orders", linger=30) as producer:
        receipt = producer.send(penstock.Message(b"x"))
        batch = producer.send_batch([])
        assert repr(receipt) == f"<Receipt of message {receipt.message_id}, on its way>"
        producer.flush()
        assert repr(receipt) == f"<Receipt of message {receipt.message_id}, durable>"
        batch.result(TIMEOUT_S)
        assert repr(batch) == "<BatchReceipt of a batch, durable>"


def test_records_of_topics_show_no_ids_of_ours(lake: penstock.Lake) -> None:
    record = lake.topics()["orders"]
    shown = repr(record)
    for name in ("write_id", "incarnation", "replaces", "of="):
        assert name not in shown
    assert record.write_id not in shown
    assert record.incarnation not in shown
    assert "queues=1" in shown


def test_messages_show_the_beginning_of_their_body(lake: penstock.Lake) -> None:
    message = penstock.Message(b"a" * 1_000_000, tag="paid")
    assert repr(message).startswith(f"Message(body={b'a' * 64!r}… of 1,000,000 bytes, message_group=None, tag='paid', keys=(), ")
    assert repr(penstock.Message(b"short")).startswith("Message(body=b'short', ")
    assert len(repr(penstock.Message(bytes(2_000_000)))) < 500
    with lake.producer("orders") as producer:
        producer.send(message)
    (view,) = lake.reader("orders").messages()
    assert repr(view).startswith("MessageView(topic='orders', queue=0, offset=0, ")
    assert len(repr(view)) < 700
    assert repr("not bytes") in repr(penstock.Message("not bytes"))  # type: ignore[arg-type]


def test_pandas_has_properties_as_dicts(lake: penstock.Lake) -> None:
    with lake.producer("orders") as producer:
        producer.send(penstock.Message(b"x", properties={"colour": "red", "size": "L"}))
        producer.send(penstock.Message(b"y"))
    frame = lake.reader("orders").to_pandas()
    assert list(frame["properties"]) == [{"colour": "red", "size": "L"}, {}]


def test_spark_is_told_our_sentence_first() -> None:
    @CleanTraceback()
    def reader() -> None:
        raise penstock.InvalidArgument("there is no such option", observed="starting")

    with pytest.raises(penstock.InvalidArgument) as raised:
        reader()
    told = "".join(traceback.format_exception(raised.value))
    sentence = "penstock.log.errors.InvalidArgument: there is no such option (observed: starting)\n"
    assert told.startswith(sentence)
    assert told.endswith(sentence)


def test_descriptions_show_what_they_are_of_and_how_much(lake: penstock.Lake) -> None:
    with lake.producer("orders") as producer:
        producer.send_batch([penstock.Message(b"x"), penstock.Message(b"y")])
    with lake.push_consumer("orders", group="billing", listener=listen):
        assert re.fullmatch(
            r"<GroupDescription of group billing, queues \d, lag \d, members \d>", repr(lake.describe_group("billing"))
        )
    assert repr(lake.describe_topic("orders")) == "<TopicDescription of orders, NORMAL, queues 1, messages 2>"
