"""Pauses that an event may end early: a cancellation that comes together with the event is not lost.

`asyncio.wait_for` of Python 3.11 loses it, and whoever waits for the cancelled task to end waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.log.append.appender import Appender
from penstock.log.runtime.backoff import pause

PAUSES: dict[str, Callable[[asyncio.Event], Coroutine[Any, Any, None]]] = {
    "appender": lambda event: Appender._pause(SimpleNamespace(_wakeup=event), 60.0),  # type: ignore[arg-type]
    "maintenance, upkeep and the roles": lambda event: pause(event, 60.0),
}


@pytest.mark.parametrize("who", PAUSES)
async def test_a_cancellation_that_comes_with_the_event_is_not_lost(who: str) -> None:
    event = asyncio.Event()
    pausing = asyncio.ensure_future(PAUSES[who](event))
    await asyncio.sleep(0)
    event.set()
    pausing.cancel()
    await asyncio.wait([pausing])
    assert pausing.cancelled()


@pytest.mark.parametrize("who", PAUSES)
async def test_the_event_ends_a_pause_at_once(who: str) -> None:
    event = asyncio.Event()
    pausing = asyncio.ensure_future(PAUSES[who](event))
    await asyncio.sleep(0)
    event.set()
    async with asyncio.timeout(30.0):
        await pausing
