"""Handlers that never return hold up nothing but their own message group."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import penstock
from penstock import MessageView
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.cell import MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from tests.consumers.heard import SUCCESS, Heard, consuming, fill, send, until_settled
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
            dispatcher = consumer._core._dispatcher
            assert dispatcher is not None
            wait_until(lambda: bool(dispatcher._held), "the next attempt waits for the handler that hangs")
            closing = threading.Thread(target=consumer.close)
            closing.start()
            closing.join(TIMEOUT_S / 2)
            assert not closing.is_alive(), "it waits for a handler that was given up"
    finally:
        end.set()


def change(lake: penstock.Lake, group: str, how: Callable[[QueueCell], QueueCell]) -> None:
    """Change the cell of the group's only queue, which nobody owns."""

    async def work() -> None:
        cells, key = lake._core.coordination.cells, queue_key(group, "orders", 0)
        found = await cells.read(key)
        assert found is not None
        cell = how(decode_cell(found.data, where=key))
        await cells.write(key, encode_cell(cell), on=found, deadline_s=float("inf"))

    lake._portal.run(work)


def test_what_is_to_run_alone_does_not_wait_for_a_handler_that_was_given_up(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    with consuming(lake, heard := Heard(), group="audit"):
        heard.until_done(2)
        until_settled(lake, "audit")
    change(lake, "audit", lambda cell: cell.with_tries(1, Tries(MessageState.SUSPECT, 1, 0, 0, company=1)))
    end = threading.Event()

    def answer(message: MessageView) -> object:
        if message.body == b"a0":
            end.wait(2 * TIMEOUT_S)
        return SUCCESS

    try:
        with consuming(lake, hanging := Heard(answer), consume_timeout=timedelta(milliseconds=100)) as consumer:
            dispatcher = consumer._core._dispatcher
            assert dispatcher is not None
            wait_until(lambda: bool(dispatcher._held), "the next attempt waits for the handler that was given up")
            with consuming(lake, alone := Heard(), group="audit"):
                alone.until_done(1)
            assert [(one.offset, one.delivery_attempt) for one in alone.begun] == [(1, 2)]
            send(lake, "c")
            hanging.until(lambda heard: b"c0" in [one.body for one in heard.done], "the others go on")
    finally:
        end.set()
