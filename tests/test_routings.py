"""Topics whose message groups find their queues as the keys of Kafka's clients do: every way into a topic goes by its routing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest

import penstock
from penstock import ConsumeResult, Message, MessageView, Routing
from penstock.log import queue_of
from tests.consumers.heard import letters
from tests.lakes import TIMEOUT_S, read_all
from tests.waiting import wait_until

GROUPS = [f"customer-{number}" for number in range(20)]


@pytest.fixture(params=[Routing.MURMUR2, Routing.CRC32])
def routing(request: pytest.FixtureRequest) -> Routing:
    found: Routing = request.param
    assert any(queue_of(group, 4) != queue_of(group, 4, found) for group in GROUPS)
    return found


@pytest.fixture
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://") as lake:
        yield lake


def check(found: list[MessageView], routing: Routing, times: int) -> None:
    assert sorted(str(one.message_group) for one in found) == sorted(GROUPS * times)
    assert [one.queue for one in found] == [queue_of(str(one.message_group), 4, routing) for one in found]


def test_producers_and_redrives_go_by_the_routing(lake: penstock.Lake, routing: Routing) -> None:
    lake.create_topic("orders", message_type="FIFO", queues=4, routing=routing)
    with lake.producer("orders") as producer:
        for group in GROUPS:
            producer.send(Message(b"x", message_group=group))
        producer.send_batch(pa.table({"body": [b"y"] * len(GROUPS), "message_group": GROUPS}))
    check(read_all(lake), routing, 2)
    with lake.push_consumer("orders", group="billing", listener=lambda _: ConsumeResult.DEAD_LETTER):
        wait_until(lambda: len(letters(lake)) == 2 * len(GROUPS), "all are dead letters")
    assert lake.redrive("billing").sent == 2 * len(GROUPS)
    check(read_all(lake), routing, 4)


def test_delayed_messages_go_by_the_routing(lake: penstock.Lake, routing: Routing) -> None:
    lake.create_topic("orders", message_type="DELAY", queues=4, routing=routing)
    with lake.producer("orders") as producer:
        for group in GROUPS:
            producer.send(Message(b"x", message_group=group, delay=timedelta(milliseconds=1)))
    wait_until(lambda: len(read_all(lake)) == len(GROUPS), "all are delivered", timeout_s=TIMEOUT_S)
    check(read_all(lake), routing, 1)


def test_rows_of_a_schema_go_by_the_routing_also_in_transactions(lake: penstock.Lake, routing: Routing) -> None:
    lake.create_topic("orders", message_type="MIXED", queues=4, routing=routing, schema="user string", message_group="user")
    rows = [{"user": group} for group in GROUPS]
    with lake.producer("orders") as producer:
        producer.send_batch(rows)
    with (
        lake.check_transactions("shop", lambda _: penstock.TransactionResolution.UNKNOWN),
        lake.transaction(producer_group="shop") as transaction,
    ):
        transaction.send("orders", *(Message.of(row) for row in rows))
        transaction.commit()
    check(read_all(lake), routing, 2)
