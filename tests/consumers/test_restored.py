"""Parts of a lake that are lost, or put back from a backup: nothing is lost to a group, and what is noticed is told."""

from __future__ import annotations

import asyncio

import pytest

import penstock
from penstock.log.stores import MemoryStore, Put
from tests.consumers.heard import AT_ONCE, FAILURE, Heard, consuming, letters, send, until_settled


class Backup:
    """What a store holds now of the keys that begin so, to put it back later."""

    def __init__(self, store: MemoryStore, *prefixes: str) -> None:
        self._store, self._prefixes = store, prefixes
        self.objects: dict[str, bytes] = asyncio.run(self._read())

    async def _read(self) -> dict[str, bytes]:
        found = [info.key for prefix in self._prefixes for info in await self._store.list(prefix)]
        return {key: (await self._store.get(key)).data for key in found}

    def put_back(self) -> None:
        """All that came since is gone."""
        asyncio.run(self._put_back())

    async def _put_back(self) -> None:
        for key in await self._read():
            if key not in self.objects:
                await self._store.delete(key)
        for key, data in self.objects.items():
            await self._store.put(key, data, mode=Put.REPLACE)


@pytest.mark.parametrize("kept", ["nothing", "the record", "all"])
def test_what_dies_after_a_loss_of_cells_has_its_dead_letter(kept: str) -> None:
    """Though the dead-letter queue has as many letters as the new cells give."""
    store = MemoryStore()
    dying = Heard(lambda _: FAILURE)
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        backup = Backup(store, "coordination/")
        lake.create_group("billing", retry=AT_ONCE, max_attempts=1)
        lake.reset_offsets("billing", "orders", "earliest")
        if kept != "nothing":
            backup = Backup(store, "coordination/")
        with consuming(lake, dying):
            if kept == "all":
                until_settled(lake)
                backup = Backup(store, "coordination/")
            send(lake, "ab")
            until_settled(lake)
        first = letters(lake)
        assert first == ["a0", "b0"]
    backup.put_back()
    with penstock.connect(store=store, maintenance=False) as lake:
        if kept == "nothing":
            lake.create_group("billing", retry=AT_ONCE, max_attempts=1)
        lake.reset_offsets("billing", "orders", "latest")
        with consuming(lake, dying):
            until_settled(lake)
            send(lake, "xy")
            until_settled(lake)
        assert letters(lake) == [*first, "x0", "y0"]
