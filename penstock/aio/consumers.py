"""The consumers that a lake has open."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from penstock.consumers.consumer import Consumer

ConsumerT = TypeVar("ConsumerT", bound=Consumer)


class OpenConsumers:
    """Consumers that are not closed to the end."""

    def __init__(self) -> None:
        self._open: list[Consumer] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, consumer: ConsumerT) -> ConsumerT:
        self._open = [one for one in self._open if not one.done] + [consumer]
        return consumer

    def check_outside(self) -> None:
        """Raise `InvalidArgument` inside a handler of one of them."""
        for consumer in self._open:
            consumer.check_outside()

    async def close(self) -> None:
        """Close them all. Raises the first error that was not raised before."""
        untold = [one for one in self._open if not one.closed]
        ends = await asyncio.gather(*(one.close() for one in self._open), return_exceptions=True)
        for consumer, end in zip(self._open, ends, strict=True):
            if consumer in untold and end is not None:
                raise end
