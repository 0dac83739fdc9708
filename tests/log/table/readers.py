"""What tests ask of a table: its rows, by our own reader and by others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.delta.scan import scan_queue
from penstock.log.table.delta.snapshot import Snapshot
from tests.log.topics import LogWriter

T = TypeVar("T")
EVERYTHING = 1 << 62


class YieldingStore(StoreWrapper):
    """Lets others run before and after every call, as often as a seeded generator says."""

    def __init__(self, inner: MemoryStore, seed: int) -> None:
        super().__init__(inner)
        self._random = random.Random(seed)

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        await self._yield()
        answer = await run()
        await self._yield()
        return answer

    async def _yield(self) -> None:
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)


async def snapshot_of(log: LogWriter) -> Snapshot:
    return await DeltaLog(log.store, log.paths, log.record.table, log.runtime).refresh()


async def queue_rows(log: LogWriter, queue: int, start: int = 0, limit: int = EVERYTHING) -> pa.Table:
    batches = [b async for b in scan_queue(log.store, log.paths, await snapshot_of(log), queue, start, limit, runtime=log.runtime)]
    return pa.Table.from_batches(batches, MESSAGE_SCHEMA)


async def table_rows(log: LogWriter) -> dict[tuple[int, int], bytes]:
    """Bodies by (queue, offset); raises when an offset stands twice or rows are out of order."""
    found: dict[tuple[int, int], bytes] = {}
    for queue in range(log.record.settings.queues):
        rows = await queue_rows(log, queue)
        offsets = rows.column("offset").to_pylist()
        assert offsets == sorted(set(offsets))
        assert set(rows.column("queue").to_pylist()) <= {queue}
        found |= {(queue, offset): body for offset, body in zip(offsets, rows.column("body").to_pylist(), strict=True)}
    return found


async def copy_to_folder(store: MemoryStore, folder: Path) -> None:
    """The store's objects as files, for readers that know no `ObjectStore`."""
    for info in await store.list(""):
        path = folder / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((await store.get(info.key)).data)
