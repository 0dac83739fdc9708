"""When deliveries expire, the first one without a look at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

_SPARE = 1_000


class Expiries:
    """Times by key. One that ``stands`` denies is out of date, and passed over."""

    def __init__(self, stands: Callable[[int, int], bool], known: Iterable[tuple[int, int]] = ()) -> None:
        self._stands = stands
        self._heap = list(known)
        heapq.heapify(self._heap)
        self._most = 2 * len(self._heap) + _SPARE

    def __bool__(self) -> bool:
        """Whether any is noted, perhaps out of date."""
        return bool(self._heap)

    def add(self, due_ms: int, *keys: int) -> None:
        for key in keys:
            heapq.heappush(self._heap, (due_ms, key))
        if len(self._heap) > self._most:  # behind one that stays for hours, all others would gather
            self._heap = [one for one in set(self._heap) if self._stands(*one)]
            heapq.heapify(self._heap)
            self._most = 2 * len(self._heap) + _SPARE

    def first_ms(self) -> list[int]:
        """The first time, if there is one."""
        while self._heap and not self._stands(*self._heap[0]):
            heapq.heappop(self._heap)
        return [self._heap[0][0]] if self._heap else []
