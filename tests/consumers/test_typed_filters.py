"""Filters on fields: consumers of every kind judge by them, and a field that there is not is refused before anything is consumed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock import ConsumeResult
from tests.lakes import TIMEOUT_S

UNKNOWN = "SQL92: value.nobody > 2"


@pytest.fixture
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://", maintenance=False) as lake:
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
