"""Handlers that never return hold up nothing but their own message group."""

from __future__ import annotations

import threading
from datetime import timedelta

import penstock
from penstock import MessageView
from tests.consumers.heard import SUCCESS, Heard, consuming, fill
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until


def test_a_consumer_closes_while_the_next_attempt_waits_for_a_handler_that_hangs(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    end = threading.Event()

    def answer(message: MessageView) -> object:
        if message.body == b"a0":
            end.wait(TIMEOUT_S)
        return SUCCESS

    heard = Heard(answer)
    try:
        with consuming(lake, heard, consume_timeout=timedelta(milliseconds=100)) as consumer:
            heard.until_done(1)  # b0, beside it
            older = consumer._core._older
            assert older is not None
            wait_until(lambda: bool(older._held), "the next attempt waits for the handler that hangs")
            closing = threading.Thread(target=consumer.close)
            closing.start()
            closing.join(10)
            assert not closing.is_alive(), "it waits for a handler that was given up"
    finally:
        end.set()
