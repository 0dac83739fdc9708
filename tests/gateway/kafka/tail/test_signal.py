"""Signals that wake all who wait for them."""

from __future__ import annotations

import asyncio

from penstock.gateway.kafka.tail.signal import Signal, wait_any
from tests.gateway.kafka.stage import until

LONG_S = 3_600.0


async def test_who_waits_is_woken_by_any_signal_and_by_none_that_was_seen() -> None:
    one, other = Signal(), Signal()
    one.give()
    waiting = [asyncio.ensure_future(wait_any([(one, 1), (other, 0)], LONG_S)) for _ in range(3)]
    await until(lambda: len(other._waiting) == 3)
    assert not any(each.done() for each in waiting)
    other.give()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert not one._waiting
    assert not other._waiting


async def test_a_signal_that_came_between_a_look_and_the_wait_is_not_missed() -> None:
    signal = Signal()
    seen = signal.given
    signal.give()
    assert await wait_any([(signal, seen)], LONG_S)


async def test_a_wait_ends_by_time_and_who_gives_up_is_forgotten() -> None:
    signal = Signal()
    assert not await wait_any([(signal, 0)], 0.0)
    waiting = asyncio.ensure_future(wait_any([(signal, 0)], LONG_S))
    await until(lambda: bool(signal._waiting))
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert not signal._waiting
