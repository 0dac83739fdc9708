"""Receives asked again while queues go to other workers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from penstock.consumers.named_receives import NamedReceives
from penstock.coordinator.queues.cell import Receive
from penstock.log.runtime.runtime import SystemClock

ATTEMPT = 7


class LeavingQueue:
    """A queue whose calls take so long that all queues go meanwhile."""

    inherited = frozenset({ATTEMPT})

    def __init__(self, queues: dict[tuple[str, int], LeavingQueue]) -> None:
        self._queues = queues

    async def drain_attempt(self, attempt: int) -> None:
        self._queues.clear()


class NoCells:
    async def read(self, key: str) -> None:
        return None


def test_a_queue_may_go_while_a_receive_is_asked_again() -> None:
    queues: dict[tuple[str, int], LeavingQueue] = {}
    queues |= {("orders", number): LeavingQueue(queues) for number in range(2)}
    receives = NamedReceives("billing", cast(Any, None), cast(Any, NoCells()), SystemClock(), cast(Any, queues))
    assert asyncio.run(receives.again(Receive(ATTEMPT))) == ([], 0)
