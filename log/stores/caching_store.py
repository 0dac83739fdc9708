"""A store that caches ranges of objects that never change."""

from __future__ import annotations

from collections import OrderedDict

from .protocol import ObjectStore
from .wrapper import StoreWrapper


class CachingStore(StoreWrapper):
    """An LRU cache of ranges, at most ``bytes_max``.

    Only for objects that are never written again; deleted and damaged ones answer as when first read.
    """

    def __init__(self, inner: ObjectStore, bytes_max: int) -> None:
        super().__init__(inner)
        self._bytes_max = bytes_max
        self._ranges: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
        self._bytes = 0

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        place = key, start, limit
        data = self._ranges.get(place)
        if data is not None:
            self._ranges.move_to_end(place)
            return data
        data = await super().get_range(key, start, limit)
        if place not in self._ranges and len(data) <= self._bytes_max:
            self._ranges[place] = data
            self._bytes += len(data)
            while self._bytes > self._bytes_max:
                self._bytes -= len(self._ranges.popitem(last=False)[1])
        return data
