"""Received messages of this process, neither acknowledged nor expired.

If one of them ends the process, others in flight must not be blamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...log.runtime.runtime import Clock
from ..queues.receipt_handle import ReceiptHandle, SealedHandles
from .worker import Worker

_LOOK_MS = 1_000


class _Delivery(Struct, gc=False):
    due_ms: int
    sealed: SealedHandles | None


class ReceivedInFlight:
    """One worker's received messages, on the event loop's thread."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock
        self._deliveries: dict[str, _Delivery] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._look_ms = 0

    def begin(self, receipts: Iterable[Sequence[str]], due_ms: int, sealed: SealedHandles | None = None) -> None:
        """Count these messages, each with those that become visible with it, before the granting write."""
        deliveries, count = self._deliveries, 0
        for together in receipts:
            delivery = _Delivery(due_ms, sealed)
            for receipt in together:
                deliveries[receipt] = delivery
            count += len(together)
        if count:
            self._worker.started(count)
            self._look_at(due_ms)

    def holds(self, receipt: str) -> bool:
        return receipt in self._deliveries

    def handle(self, receipt: str, secret: str) -> ReceiptHandle | None:
        """The handle of a counted message, if it was made in this process with this secret."""
        delivery = self._deliveries.get(receipt)
        sealed = None if delivery is None else delivery.sealed
        return None if sealed is None or sealed.secret != secret else sealed.by_text.get(receipt)

    def end(self, receipts: Iterable[str]) -> None:
        """Stop counting these messages. Others are ignored."""
        deliveries, before = self._deliveries, len(self._deliveries)
        for receipt in receipts:
            deliveries.pop(receipt, None)
        if ended := before - len(deliveries):
            self._worker.finished(ended)

    def change(self, receipt: str, due_ms: int) -> None:
        """Count a message, and those with it, until ``due_ms``."""
        if (delivery := self._deliveries.get(receipt)) is not None:
            delivery.due_ms = due_ms
            self._look_at(due_ms)

    def _look_at(self, due_ms: int) -> None:
        if self._timer is not None:
            if self._look_ms <= due_ms:
                return
            self._timer.cancel()
        self._look_ms = due_ms
        self._timer = asyncio.get_running_loop().call_later(max(0.0, (due_ms - self._clock.wall_ms()) / 1000), self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock.wall_ms()
        self.end([receipt for receipt, delivery in self._deliveries.items() if delivery.due_ms <= now_ms])
        if self._deliveries:
            self._look_at(max(now_ms + _LOOK_MS, min(delivery.due_ms for delivery in self._deliveries.values())))
