"""No group begins on a timer log: what waits there would be delivered before it is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import penstock
from penstock import ConsumeResult, MessageView
from tests.lakes import TIMEOUT_S

SAID = r"this is a topic's timer log.*operation: {}; object: %TIMER%orders.*name the topic: orders"


def listen(_: MessageView) -> ConsumeResult:
    return ConsumeResult.SUCCESS


@pytest.fixture
def delayed(lake: penstock.Lake) -> penstock.Lake:
    lake.create_topic("orders", message_type="DELAY", queues=1)
    with lake.producer("orders") as producer:
        producer.send(penstock.Message(b"later", delay=timedelta(hours=1))).result(TIMEOUT_S)
    return lake


@pytest.mark.parametrize(
    "subscribe",
    [
        lambda lake, topic: lake.push_consumer(topic, group="early", listener=listen),
        lambda lake, topic: lake.simple_consumer(topic, group="early"),
        lambda lake, topic: lake.pull_consumer(topic, group="early"),
        lambda lake, topic: lake.broadcast_consumer(topic, group="early", member="one", listener=listen),
    ],
    ids=["push", "simple", "pull", "broadcast"],
)
@pytest.mark.parametrize("topics", ["%TIMER%orders", {"orders": None, "%TIMER%orders": None}], ids=["alone", "beside"])
def test_no_consumer_subscribes_to_it(delayed: penstock.Lake, subscribe: Callable[..., Any], topics: object) -> None:
    with pytest.raises(penstock.InvalidArgument, match=SAID.format("subscribe")):
        subscribe(delayed, topics)
    assert delayed.groups() == {}


def test_no_reset_lets_a_group_begin_there(delayed: penstock.Lake) -> None:
    delayed.create_group("early")
    with pytest.raises(penstock.InvalidArgument, match=SAID.format("reset_offsets")):
        delayed.reset_offsets("early", "%TIMER%orders", "earliest")


def test_readers_see_what_waits(delayed: penstock.Lake) -> None:
    assert [one.body for one in delayed.reader("%TIMER%orders").messages()] == [b"later"]
