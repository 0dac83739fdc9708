"""When deliveries expire, the first one without a look at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

_SPARE = 1_000


class Expiries:
    """Times by key. One that ``stands`` denies is out of date, and passed over."""

    def __init__(self, stands: Callable[[int, int], bool], known: Iterable[tuple[int, int]] = ()) -> None:
        self._stands = stands
        self._heap = [(due_ms, [key]) for due_ms, key in known]
        """The keys that were noted together, for whom one entry does."""
        heapq.heapify(self._heap)
        self._count = len(self._heap)
        self._most = 2 * self._count + _SPARE

    def __bool__(self) -> bool:
        """Whether any is noted, perhaps out of date."""
        return bool(self._heap)

    def add(self, due_ms: int, keys: Iterable[int]) -> None:
        if noted := [*keys]:
            heapq.heappush(self._heap, (due_ms, noted))
            self._count += len(noted)
        if self._count > self._most:  # behind one that stays for hours, all others would gather
            self._forget_outdated()

    def first_ms(self) -> list[int]:
        """The first time, if there is one."""
        while self._heap:
            due_ms, keys = self._heap[0]
            while keys:
                if self._stands(due_ms, keys[-1]):
                    return [due_ms]
                keys.pop()
                self._count -= 1
            heapq.heappop(self._heap)
        return []

    def _forget_outdated(self) -> None:
        standing: dict[int, dict[int, None]] = {}
        for due_ms, keys in self._heap:
            standing.setdefault(due_ms, {}).update((key, None) for key in keys if self._stands(due_ms, key))
        self._heap = [(due_ms, list(keys)) for due_ms, keys in standing.items() if keys]
        heapq.heapify(self._heap)
        self._count = sum(len(keys) for _, keys in self._heap)
        self._most = 2 * self._count + _SPARE
