"""One producer for each topic, shared by all clients."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from ...aio import Lake, Producer
from ...log import PenstockError, ProducerOptions, ReopenError
from ...log.limits import MIB
from ...log.metrics import MemoryMetrics, Metrics
from ...log.produce.metrics import sends_counted

IDLE_S: Final = 300.0
"""An unused producer is closed after this time."""
PRODUCER_OPTIONS: Final = ProducerOptions(
    linger=timedelta(0),
    max_linger=timedelta(0),
    memory_bytes=128 * MIB,
    delivery_timeout=timedelta(seconds=30),
)
"""No linger: every call waits for its message, and the messages that come during an append are batch enough."""


@dataclass(slots=True)
class _Open:
    producer: asyncio.Future[Producer]
    used_s: float

    def holds(self, producer: Producer) -> bool:
        return self.producer.done() and not self.producer.exception() and self.producer.result() is producer


class ProducerPool:
    """Opens producers on demand."""

    def __init__(self, lake: Lake, metrics: Metrics | None = None) -> None:
        self._lake = lake
        self._metrics = MemoryMetrics() if metrics is None else metrics
        self._open: dict[str, _Open] = {}

    async def of(self, topic: str) -> Producer:
        """A working producer. Raises what opening one raises."""
        now_s = self._lake.runtime.clock.monotonic_s()
        known = self._open.get(topic)
        if known is None:
            known = self._open[topic] = _Open(
                asyncio.ensure_future(self._lake.producer(topic, options=self._options(topic))), now_s
            )
        known.used_s = now_s
        if not known.producer.done():
            await asyncio.wait((known.producer,))
        try:
            return known.producer.result()
        except PenstockError:
            self._forget(topic, known)
            raise

    def _options(self, topic: str) -> ProducerOptions:
        return replace(PRODUCER_OPTIONS, on_batch=sends_counted(self._metrics, topic=topic))

    def on_failure(self, topic: str, producer: Producer, error: PenstockError) -> None:
        """The next call replaces a broken producer."""
        known = self._open.get(topic)
        is_over = isinstance(error, ReopenError) or producer.statistics().failed
        if is_over and known is not None and known.holds(producer):
            self._forget(topic, known)

    def _forget(self, topic: str, known: _Open) -> None:
        if self._open.get(topic) is known:
            del self._open[topic]

    async def close_idle(self) -> None:
        before_s = self._lake.runtime.clock.monotonic_s() - IDLE_S
        for topic, known in list(self._open.items()):
            if known.used_s < before_s and known.producer.done():
                self._forget(topic, known)
                with suppress(PenstockError):  # every send was told its own outcome
                    await known.producer.result().close()
