"""Listeners that return None: refused where they say so, told loudly where they do it."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import ConsumeResult, InvalidArgument, MessageView
from penstock.consumers.handlers.missing_result import is_annotated_to_return_none
from tests.consumers.heard import consuming, fill, until_settled
from tests.lakes import TIMEOUT_S


def listen(message: MessageView) -> None:
    """What users of other queues write."""


def evaluated(message: MessageView) -> ConsumeResult:
    return ConsumeResult.SUCCESS


async def listen_async(message: MessageView) -> None:
    """The same as a coroutine function."""


def listen_with(store: object, message: MessageView) -> None:
    """With an argument that is bound before."""


class Worker:
    def handle(self, message: MessageView) -> None:
        """A method."""

    @staticmethod
    def static(message: MessageView) -> None:
        """A static one."""

    @classmethod
    def of_class(cls, message: MessageView) -> None:
        """One of the class."""


class Callee:
    def __call__(self, message: MessageView) -> None:
        """An object that is called."""


def returning(kind: object) -> Callable[..., Any]:
    """A function whose annotation is no text."""

    def handle(message: object) -> object:
        return None

    handle.__annotations__["return"] = kind
    return handle


def succeeds(listener: Callable[..., None]) -> Callable[..., ConsumeResult]:
    """A decorator as users write it: it answers in place of what it wraps."""

    @functools.wraps(listener)
    def wrapper(message: MessageView) -> ConsumeResult:
        listener(message)
        return ConsumeResult.SUCCESS

    return wrapper


REFUSED: dict[str, Any] = {
    "function": listen,
    "coroutine function": listen_async,
    "partial": functools.partial(listen_with, object()),
    "partial of a partial": functools.partial(functools.partial(listen_with, object())),
    "bound method": Worker().handle,
    "partial of a method": functools.partial(Worker().handle),
    "static method": Worker.static,
    "class method": Worker.of_class,
    "object": Callee(),
    "annotated None": returning(None),
    "annotated NoneType": returning(type(None)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_listener_that_says_it_returns_none_is_refused_at_opening(lake: penstock.Lake, kind: str) -> None:
    fill(lake, "a")
    for call in (
        lambda: lake.push_consumer("orders", group="billing", listener=REFUSED[kind]),
        lambda: lake.broadcast_consumer("orders", group="all", member="one", listener=REFUSED[kind]),
    ):
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert "annotated to return None" in str(refused.value)
        assert refused.value.expected == "-> penstock.ConsumeResult"
        assert refused.value.hint == "end it with `return penstock.ConsumeResult.SUCCESS`"
    assert lake.groups() == {}


@pytest.mark.parametrize(
    "listener",
    [
        evaluated,
        succeeds(listen),
        functools.partial(succeeds(listen)),
        lambda message: None,
        print,
        returning("Any"),
        returning("None | int"),
        Worker,
    ],
    ids=["says a result", "wrapped", "partial of wrapped", "says nothing", "built in", "any", "perhaps", "class"],
)
def test_what_may_return_something_is_taken(listener: object) -> None:
    assert not is_annotated_to_return_none(listener)


def test_the_first_none_is_told_loudly_with_the_listener_and_the_remedy(
    lake: penstock.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, "aa")
    seen: dict[bytes, int] = {}

    def forgets(message: MessageView) -> ConsumeResult | None:
        seen[message.body] = seen.get(message.body, 0) + 1
        return None if seen[message.body] == 1 else ConsumeResult.SUCCESS

    with consuming(lake, forgets):
        until_settled(lake)
    assert set(seen.values()) == {2}
    (told,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "forgets of group billing returned None, which counts as a failure" in told.getMessage()
    assert told.getMessage().endswith("end it with `return penstock.ConsumeResult.SUCCESS`")


def test_a_broadcast_tells_its_first_none(lake: penstock.Lake, caplog: pytest.LogCaptureFixture) -> None:
    fill(lake, "aa")
    heard = threading.Semaphore(0)
    with lake.broadcast_consumer("orders", group="all", member="one", listener=lambda message: heard.release()):  # type: ignore[arg-type,return-value]
        assert all(heard.acquire(timeout=TIMEOUT_S) for _ in range(2))
    (told,) = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert "of group all returned None, which counts as a failure: it is logged, and nothing is tried again" in told
