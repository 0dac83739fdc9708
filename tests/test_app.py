"""`penstock.App`: what a declaration is refused for, what functions take, and an app in a test."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import penstock
from penstock import ConsumeResult, InvalidArgument, Message, MessageView
from penstock.app import App, ListenerOptions
from penstock.testing import app as running
from penstock.testing import memory_lake, until_handled

SUCCESS = ConsumeResult.SUCCESS


@dataclass
class Order:
    id: int
    customer: str
    note: str | None = None


class Point(NamedTuple):
    x: int


def plain(message: MessageView) -> ConsumeResult:
    return SUCCESS


def test_an_app_has_the_options_of_a_push_consumer() -> None:
    known = set(inspect.signature(penstock.Lake.push_consumer).parameters) - {"self", "topic", "group", "listener", "metrics"}
    assert set(ListenerOptions.__annotations__) == known


def test_a_decorated_function_stays_as_it_is() -> None:
    app = App()
    assert app.listener("orders", group="billing")(plain) is plain
    (listener,) = app.listeners
    assert (listener.name, listener.topics, listener.group, listener.handle) == ("plain", ("orders",), "billing", plain)
    assert repr(app) == "App(no lake, 1 listeners)"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_attemps": 5}, "max_attempts is one"),
        ({"grup": "x"}, "a listener has no such option"),
        ({"delivery_order": "FIFO"}, "delivery_order"),
        ({"threads": 0}, "threads"),
        ({"start": "noon"}, "start is an offset"),
        ({"filter": "SQL92: price >"}, "filter"),
        ({"max_attempts": 0}, "max_attempts"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        App().listener("orders", group="billing", **options)
    assert said in f"{refused.value} {refused.value.hint}"


def test_two_listeners_of_a_group_on_one_topic_are_refused() -> None:
    app = App()
    app.listener("orders", group="billing")(plain)
    app.listener("orders", group="audit")(plain)
    app.listener("returns", group="billing")(plain)
    with pytest.raises(InvalidArgument, match="two listeners of one group on one topic"):
        app.listener({"letters": None, "orders": "paid"}, group="billing")


def returns_none(message: MessageView) -> None:
    pass


def takes_two(message: MessageView, other: int) -> ConsumeResult:
    return SUCCESS


def takes_a_text(text: str) -> ConsumeResult:
    return SUCCESS


def takes_the_unknown(order: "Unknown") -> ConsumeResult:  # type: ignore[name-defined]  # noqa: F821, UP037
    return SUCCESS


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (returns_none, "annotated to return None"),
        (takes_two, "does not take one argument"),
        (takes_a_text, "takes neither messages nor rows"),
        (takes_the_unknown, "annotation cannot be read"),
        (7, "cannot be called"),
    ],
)
def test_a_function_that_cannot_be_a_listener_is_refused(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        App().listener("orders", group="billing")(function)


def test_an_app_without_a_lake_says_where_it_is_named() -> None:
    with pytest.raises(InvalidArgument, match="the app names no lake"):
        App().connect()


def test_an_app_opens_its_lake_or_another(tmp_path: Path) -> None:
    app = App(tmp_path / "lake")
    with app.connect() as lake:
        assert lake.url.endswith("lake")
    with app.connect("memory://") as other:
        assert other.url.startswith("memory://")


def test_check_finds_what_no_listener_could_work_on() -> None:
    app = App()
    with memory_lake() as lake:
        with pytest.raises(InvalidArgument, match="the app has no listener"):
            app.check(lake)

        @app.listener("orders", group="billing")
        def bill(order: Order) -> ConsumeResult:
            return SUCCESS

        with pytest.raises(penstock.TopicNotFound):
            app.check(lake)
        lake.create_topic("orders")
        with pytest.raises(InvalidArgument, match="the listener takes rows, and the topic has no schema"):
            app.check(lake)
    with memory_lake() as lake:
        lake.create_topic("orders", schema="id bigint")
        with pytest.raises(InvalidArgument, match="the topic lacks fields") as refused:
            app.check(lake)
        assert refused.value.expected == "Order with customer"
    with memory_lake() as lake:
        lake.create_topic("orders", schema=Order)
        app.check(lake)


def test_listeners_take_messages_rows_and_lists_of_both() -> None:
    app, seen = App(), dict[str, Any]()

    @app.listener("plain", group="a")
    def message(message: MessageView) -> ConsumeResult:
        seen["message"] = message.json()
        return SUCCESS

    @app.listener("plain", group="b", batch="queue")
    def messages(messages: list[MessageView]) -> ConsumeResult:
        seen["messages"] = [one.json() for one in messages]
        return SUCCESS

    @app.listener("typed", group="c")
    def row(order: Order) -> ConsumeResult:
        seen["row"] = order
        return SUCCESS

    @app.listener("typed", group="d", batch="queue")
    def rows(orders: list[Order]) -> ConsumeResult:
        seen["rows"] = orders
        return SUCCESS

    @app.listener("typed", group="e")
    async def coroutine(order: "Order | None") -> ConsumeResult:  # noqa: UP037 - the form of modules with annotations as texts
        seen["coroutine"] = order
        return SUCCESS

    with running(app) as lake:
        with lake.producer("plain") as producer:
            producer.send(Message.json(1, message_group="g"))
        with lake.producer("typed") as producer:
            producer.send_row(Order(1, "ann"))
    order = Order(1, "ann")
    assert seen == {"message": 1, "messages": [1], "row": order, "rows": [order], "coroutine": order}
    assert row(order) is SUCCESS


def test_a_tombstone_is_none_or_a_failure() -> None:
    app, seen = App(), list[Any]()
    soon = penstock.RetryPolicy(interval=timedelta(milliseconds=1))

    @app.listener("typed", group="a")
    def takes_it(order: Order | None) -> ConsumeResult:
        seen.append(order)
        return SUCCESS

    @app.listener("typed", group="b", max_attempts=1, retry=soon)
    def takes_none(order: Order) -> ConsumeResult:
        seen.append("a row")
        return SUCCESS

    with running(app) as lake:
        with lake.producer("typed") as producer:
            producer.send(Message(None))
        until_handled(lake)
        (letter,) = lake.reader("%DLQ%b").messages()
        assert "the message is a tombstone" in str(letter.properties)
    assert seen == [None]


def test_an_app_in_a_test_has_topics_as_its_listeners_need_them_and_keeps_those_that_are_there() -> None:
    app = App()
    app.listener("orders", group="billing")(plain)
    with memory_lake() as mine:
        mine.create_topic("orders", message_type="FIFO", queues=3)
        with running(app, lake=mine) as lake:
            assert lake is mine
        assert mine.topics()["orders"].settings.queues == 3
        mine.describe_topic("orders")  # a lake that was given stays open


def test_what_is_not_handled_in_time_is_told() -> None:
    app = App()

    @app.listener("orders", group="billing")
    def fail(message: MessageView) -> ConsumeResult:
        return ConsumeResult.FAILURE

    with (
        pytest.raises(TimeoutError, match="billing has 1 messages of orders left"),
        running(app, timeout=0.05) as lake,
        lake.producer("orders") as producer,
    ):
        producer.send(Message(b"x"))


def test_an_error_of_the_test_is_not_waited_over() -> None:
    app = App()
    app.listener("orders", group="billing")(plain)
    with pytest.raises(ZeroDivisionError), running(app, timeout=60):
        raise ZeroDivisionError
