"""Lakes for tests."""

from __future__ import annotations

from penstock.lake import Lake, connect
from penstock.log import Clock, ObjectStore, Runtime, SystemClock
from penstock.log.stores import MemoryStore


def memory_lake(*, clock: Clock | None = None, store: ObjectStore | None = None) -> Lake:
    """An empty lake in this process's memory, with the store's time from the same clock. Close it, or use it in a ``with`` block.

    Lakes with the same ``store`` share it, as processes share a bucket.
    """
    clock = clock or SystemClock()
    return connect(store=store or MemoryStore(name="test", clock=clock), runtime=Runtime(clock=clock))
