"""Pauses that an event may end early: a cancellation that comes together with the event is not lost.

`asyncio.wait_for` of Python 3.11 loses it, and whoever waits for the cancelled task to end waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordinator import upkeep
from penstock.log.appender import Appender
from penstock.log.table import maintenance

PAUSES: dict[str, Callable[[asyncio.Event], Coroutine[Any, Any, None]]] = {
    "appender": lambda event: Appender._pause(SimpleNamespace(_news=event), 60.0),  # type: ignore[arg-type]
    "maintenance": lambda event: maintenance._pause(event, timedelta(seconds=60)),
    "upkeep": lambda event: upkeep._pause(event, 60.0),
}


@pytest.mark.parametrize("pause", PAUSES)
def test_a_cancellation_that_comes_with_the_event_is_not_lost(pause: str) -> None:
    async def work() -> None:
        event = asyncio.Event()
        pausing = asyncio.ensure_future(PAUSES[pause](event))
        await asyncio.sleep(0)
        event.set()
        pausing.cancel()
        await asyncio.wait([pausing])
        assert pausing.cancelled()

    asyncio.run(work())


@pytest.mark.parametrize("pause", PAUSES)
def test_the_event_ends_a_pause_at_once(pause: str) -> None:
    async def work() -> None:
        event = asyncio.Event()
        pausing = asyncio.ensure_future(PAUSES[pause](event))
        await asyncio.sleep(0)
        event.set()
        async with asyncio.timeout(5.0):
            await pausing

    asyncio.run(work())
