"""Names that Kafka's clients have: a topic with dots and a group of any text, through all that a lake does with them."""

from __future__ import annotations

import asyncio
import queue
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

import penstock
from penstock import ConsumeResult, Message, MessageView
from penstock.coordinator import create_table
from tests.lakes import TIMEOUT_S
from tests.servers import DynamoDBServer, S3Server
from tests.waiting import wait_until

TOPIC, LATER = "inventory.public.customers", "inventory.public.reminders"
GROUP = "connect-cluster/αβ group#1"
PART = "connect-cluster!2f!ce!b1!ce!b2!20group!231"
LETTERS = f"%DLQ%{PART}"
ANY_REDRIVE = "REDRIVE_OFFSET"


def fails_first(heard: queue.Queue[tuple[str, bytes]], message: MessageView) -> ConsumeResult:
    """A first message becomes a dead letter; what comes back from there, or later, is heard."""
    if message.topic == TOPIC and ANY_REDRIVE not in message.properties:
        raise ValueError("not this one")
    heard.put((message.topic, message.body))
    return ConsumeResult.SUCCESS


def letters(lake: penstock.Lake) -> int:
    try:
        return lake.describe_topic(LETTERS).messages
    except penstock.TopicNotFound:
        return 0


def live(lake: penstock.Lake) -> None:
    """Send, consume, bury, send back, delay, receive, broadcast, reset, trace, describe, delete."""
    lake.create_topic(TOPIC, message_type="FIFO", queues=1)
    lake.create_topic(LATER, message_type="DELAY", queues=1)
    heard: queue.Queue[tuple[str, bytes]] = queue.Queue()
    with lake.producer(TOPIC) as producer:
        sent = producer.send(Message(b"row", message_group="1")).result(timeout=TIMEOUT_S)
    with lake.push_consumer({TOPIC: None, LATER: None}, group=GROUP, listener=lambda one: fails_first(heard, one), max_attempts=1):
        wait_until(lambda: letters(lake), "a dead letter")
        assert lake.redrive(GROUP).sent == 1
        assert heard.get(timeout=TIMEOUT_S) == (TOPIC, b"row")
        with lake.producer(LATER) as producer:
            producer.send(Message(b"later", delay=timedelta(milliseconds=1))).result(timeout=TIMEOUT_S)
        assert heard.get(timeout=TIMEOUT_S) == (LATER, b"later")
        assert len(lake.workers(group=GROUP)) == 1
    (letter,) = lake.reader(LETTERS).messages()
    assert letter.properties["DLQ_ORIGIN_TOPIC"] == TOPIC
    assert lake.redrive(GROUP).sent == 0
    assert lake.reset_offsets(GROUP, TOPIC, "earliest") == {0: 0}
    with lake.simple_consumer(TOPIC, group=GROUP) as consumer:
        (again,) = consumer.receive(1, await_duration=timedelta(seconds=TIMEOUT_S))
        consumer.ack(again)

    def hear(one: penstock.MessageView) -> ConsumeResult:
        heard.put((one.topic, one.body))
        return ConsumeResult.SUCCESS

    with lake.broadcast_consumer(TOPIC, group=GROUP, member="m", listener=hear):
        assert heard.get(timeout=TIMEOUT_S) == (TOPIC, b"row")
    places = lake.trace(sent.message_id).places
    assert (
        {one.group for place in places for one in place.groups}
        == {one.group for place in places for one in place.members}
        == {GROUP}
    )
    assert [place.dead_letter.group for place in places if place.dead_letter] == [GROUP]
    assert list(lake.groups()) == [GROUP]
    assert lake.describe_group(GROUP).queues
    assert list(lake.topics()) == [LETTERS, f"%TIMER%{LATER}", TOPIC, LATER]
    lake.delete_group(GROUP)
    assert lake.groups() == {}
    for name in (TOPIC, LATER, LETTERS):
        lake.delete_topic(name)
    assert lake.topics() == {}


@pytest.mark.parametrize("coordination", [None, "store", "memory://"])
def test_names_of_kafka_s_clients_live_in_a_folder(tmp_path: Path, coordination: str | None) -> None:
    with penstock.connect(tmp_path / "lake", coordination=coordination) as lake:
        live(lake)
    folders = {path.name for path in (tmp_path / "lake" / "topics").iterdir()}
    assert folders == {TOPIC, LATER, f"timer.{LATER}", f"dlq.{PART}"}
    assert (tmp_path / "lake" / "coordination" / "redrives" / PART).is_dir()
    assert (tmp_path / "lake" / "coordination" / "groups" / PART).exists() == (coordination == "store")


def test_names_of_kafka_s_clients_live_in_memory() -> None:
    with penstock.connect(f"memory://{uuid4()}") as lake:
        live(lake)


@pytest.mark.s3
@pytest.mark.dynamodb
def test_names_of_kafka_s_clients_live_on_s3_and_in_dynamodb(moto: S3Server) -> None:
    server = DynamoDBServer(moto.endpoint)
    asyncio.run(create_table(server.url("names-of-kafka"), options=moto.credentials))
    with penstock.connect(moto.url("names"), coordination=server.url("names-of-kafka"), options=moto.credentials) as lake:
        live(lake)
