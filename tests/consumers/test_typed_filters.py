"""Filters on fields: consumers of every kind judge by them, and a field that there is not is refused before anything is consumed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import penstock
from penstock import ConsumeResult
from penstock.consumers.trace.status import DeliveryState
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S

UNKNOWN = "SQL92: value.nobody > 2"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def lake(store: MemoryStore) -> Iterator[penstock.Lake]:
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("orders", schema="id int, amount double", queues=2)
        with lake.producer("orders") as producer:
            for number in range(6):
                producer.send_row({"id": number, "amount": float(number)})
        yield lake


def test_a_consumer_gets_the_rows_that_pass(lake: penstock.Lake) -> None:
    got: list[int] = []
    done = threading.Event()

    def listen(message: penstock.MessageView) -> ConsumeResult:
        got.append(message.value["id"])
        if len(got) == 3:
            done.set()
        return ConsumeResult.SUCCESS

    with lake.push_consumer("orders", group="g", listener=listen, filter="SQL92: value.amount > 2"):
        assert done.wait(TIMEOUT_S)
    assert sorted(got) == [3, 4, 5]


def test_a_filter_follows_its_field_through_a_rename(lake: penstock.Lake) -> None:
    """The group keeps the filter's text, so a running consumer and the next one ask for the field by its former name."""
    got: list[Any] = []
    arrived = threading.Semaphore(0)

    def listen(message: penstock.MessageView) -> ConsumeResult:
        got.append(message.value)
        arrived.release()
        return ConsumeResult.SUCCESS

    def consumer() -> Any:
        return lake.push_consumer("orders", group="g", listener=listen, filter="SQL92: value.amount > 4", delivery_order="ORDERLY")

    with consumer(), lake.producer("orders") as producer:
        assert arrived.acquire(timeout=TIMEOUT_S)
        lake.evolve_topic("orders", "id int, total double", rename={"amount": "total"})
        producer.send_row({"id": 6, "amount": 6.0})
        producer.send_row({"id": 7, "total": 3.0}).result(timeout=TIMEOUT_S)
        assert arrived.acquire(timeout=TIMEOUT_S)
    with consumer(), lake.producer("orders") as producer:
        producer.send_row({"id": 8, "total": 8.0}).result(timeout=TIMEOUT_S)
        assert arrived.acquire(timeout=TIMEOUT_S)
    assert got == [{"id": 5, "amount": 5.0}, {"id": 6, "total": 6.0}, {"id": 8, "total": 8.0}]


def test_a_filter_names_a_field_that_another_process_added(lake: penstock.Lake, store: MemoryStore) -> None:
    with penstock.connect(store=store, maintenance=False) as other, other.producer("orders"):
        lake.evolve_topic("orders", "id int, amount double, note string")
        with other.simple_consumer("orders", group="g", filter="SQL92: value.note = 'x'") as consumer:
            assert consumer.receive(1, await_duration=timedelta(0)) == []


def test_a_trace_judges_by_fields(lake: penstock.Lake) -> None:
    lake.create_group("g", filters={"orders": "SQL92: value.amount > 4"})
    lake.reset_offsets("g", "orders", "earliest")
    found = {}
    for message in lake.reader("orders").messages():
        (place,) = lake.trace(message.message_id).places
        found[message.value["id"]] = place.groups[0].fate
    assert found == {5: DeliveryState.FRESH} | dict.fromkeys(range(5), DeliveryState.LEFT_OUT)


@pytest.mark.parametrize(
    "opened",
    [
        lambda lake, listen: lake.push_consumer("orders", group="g", listener=listen, filter=UNKNOWN),
        lambda lake, listen: lake.simple_consumer("orders", group="g", filter=UNKNOWN),
        lambda lake, listen: lake.pull_consumer("orders", group="g", filter=UNKNOWN),
        lambda lake, listen: lake.broadcast_consumer("orders", group="g", member="m", listener=listen, filter=UNKNOWN),
    ],
    ids=["push", "simple", "pull", "broadcast"],
)
def test_a_field_that_there_is_not_is_refused_at_once(lake: penstock.Lake, opened: Callable[..., Any]) -> None:
    def listen(message: penstock.MessageView) -> ConsumeResult:
        return ConsumeResult.SUCCESS

    with (
        pytest.raises(penstock.InvalidArgument, match=r"no such field.*value\.nobody.*value\.id, value\.amount"),
        opened(lake, listen),
    ):
        raise AssertionError("it was opened")
