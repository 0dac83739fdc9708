"""A lower bound of the store's time: messages delivered by it are never early, whatever this machine's clock shows.

An answer counts from its arrival, as the store's clock had shown it before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

from ...log.errors import PenstockError
from ...log.runtime.runtime import Clock
from ...log.stores.protocol import ObjectStore

log = logging.getLogger("penstock.coordinator")

ASK_EVERY_S = 60.0
_KEEP_S = 300.0
"""The age above which answers count only without newer ones, as the store's clock may be set back."""
_FIRST_ASKS = 4
_ODD_PAUSE_S = 0.27
"""The pause between the first requests, which meet different parts of a second."""
_DRIFT_MAX = 0.0005
"""The most by which a machine's clock runs faster than the store's."""
_CUT_MS = 500
"""Subtracted from times cut to the second, given as its middle."""


class StoreTimeBound(NamedTuple):
    """A time that the store's clock had shown at the answer's arrival."""

    store_ms: int
    arrived_s: float
    """The arrival by the monotonic clock."""

    def least_us(self, now_s: float) -> int:
        """The least that the store's clock shows now."""
        cut_ms = _CUT_MS if self.store_ms % 1000 == _CUT_MS else 0
        return 1000 * (self.store_ms - cut_ms) + int(1e6 * (now_s - self.arrived_s) * (1 - _DRIFT_MAX))


def least_us(answers: Iterable[StoreTimeBound], now_s: float) -> int | None:
    """The best of these answers."""
    return max((answer.least_us(now_s) for answer in answers), default=None)


class StoreTime:
    """Follows one store, by the monotonic time of ``clock``."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._answers: list[StoreTimeBound] = []

    async def now_us(self) -> int:
        """Microseconds since the epoch that the store's clock has reached. Asks the store once a minute. Raises its errors until the first answer."""
        now_s = self._clock.monotonic_s()
        if not self._answers:
            await self._ask_first()
        elif now_s - self._answers[-1].arrived_s >= ASK_EVERY_S:
            try:
                await self._ask()
            except PenstockError as error:
                log.warning("the store did not say its time; due times go on by what it said before: %s", error)
        least = least_us(self._answers, self._clock.monotonic_s())
        assert least is not None, "it was asked"
        return least

    async def _ask_first(self) -> None:
        await self._ask()
        for _ in range(_FIRST_ASKS - 1 if self._is_cut() else 0):
            await asyncio.sleep(_ODD_PAUSE_S)
            await self._ask()

    def _is_cut(self) -> bool:
        return self._answers[-1].store_ms % 1000 == _CUT_MS

    async def _ask(self) -> None:
        store_ms = await self._store.clock_ms()
        answer = StoreTimeBound(store_ms, self._clock.monotonic_s())
        kept = (one for one in self._answers if answer.arrived_s - one.arrived_s <= _KEEP_S)
        self._answers = [*kept, answer]
