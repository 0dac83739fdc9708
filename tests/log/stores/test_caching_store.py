"""Ranges that are remembered: asked for once, within bounds, and never an error."""

from __future__ import annotations

import pytest

from penstock.log.stores import CountingStore, MemoryStore, ObjectMissing, Put
from penstock.log.stores.caching_store import CachingStore


async def test_each_range_is_asked_for_once_while_there_is_room() -> None:
    counted = CountingStore(MemoryStore())
    store = CachingStore(counted, bytes_max=6)
    await store.put("a", b"0123456789", mode=Put.CREATE)
    asked = []
    for start, limit in ((0, 3), (0, 3), (3, 6), (0, 3), (6, 9), (3, 6), (0, 10), (0, 10)):
        before = counted.statistics()
        assert await store.get_range("a", start, limit) == b"0123456789"[start:limit]
        asked.append((counted.statistics() - before).get.requests)
    # The third range took the place of the second, which was used less recently than the first; all ten bytes are too many.
    assert asked == [1, 0, 1, 0, 1, 1, 1, 1]


async def test_what_is_missing_is_asked_for_again_and_whole_objects_always() -> None:
    store = CachingStore(MemoryStore(), bytes_max=100)
    with pytest.raises(ObjectMissing):
        await store.get_range("a", 0, 1)
    await store.put("a", b"x", mode=Put.CREATE)
    assert await store.get_range("a", 0, 1) == b"x"
    await store.put("a", b"y", mode=Put.REPLACE)
    assert (await store.get("a")).data == b"y"
