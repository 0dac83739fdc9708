"""Messages in the hands of this process's code: handed out by ``receive``, not acknowledged, their time not over.

They are in flight in the process like those that a handler has: whichever ends it, none that ran at the same time is to be blamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..log.runtime import Clock
from .worker import Worker

_LOOK_MS = 1_000
"""At most so often all are looked at."""


@dataclass(slots=True)
class _Delivery:
    """Messages that become visible again together."""

    due_ms: int


class InHand:
    """Of one worker, whatever consumers they were received by. For the event loop's thread."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock
        self._deliveries: dict[str, _Delivery] = {}
        """By receipt handle."""
        self._timer: asyncio.TimerHandle | None = None
        self._look_ms = 0
        """When it is looked next whose time is over."""

    def begin(self, receipts: Iterable[Sequence[str]], due_ms: int) -> None:
        """Count these, each of which has those with it that become visible together. To be called before the write that hands them out."""
        for together in receipts:
            self._worker.started(len(together))
            delivery = _Delivery(due_ms)
            self._deliveries.update(dict.fromkeys(together, delivery))
            self._look_at(due_ms)

    def end(self, receipts: Iterable[str]) -> None:
        """Count these no more: they are acknowledged, or nobody was given them. Those of other processes are none of it."""
        for receipt in receipts:
            if self._deliveries.pop(receipt, None) is not None:
                self._worker.finished(1)

    def change(self, receipt: str, due_ms: int) -> None:
        """Count a message, and those with it, until then."""
        if (delivery := self._deliveries.get(receipt)) is not None:
            delivery.due_ms = due_ms
            self._look_at(due_ms)

    def _look_at(self, due_ms: int) -> None:
        """Look then, or before."""
        if self._timer is not None:
            if self._look_ms <= due_ms:
                return
            self._timer.cancel()
        self._look_ms = due_ms
        self._timer = asyncio.get_running_loop().call_later(max(0.0, (due_ms - self._clock.wall_ms()) / 1000), self._look)

    def _look(self) -> None:
        """Count those no more whose time is over."""
        self._timer = None
        now_ms = self._clock.wall_ms()
        self.end([receipt for receipt, delivery in self._deliveries.items() if delivery.due_ms <= now_ms])
        if self._deliveries:
            self._look_at(max(now_ms + _LOOK_MS, min(delivery.due_ms for delivery in self._deliveries.values())))
