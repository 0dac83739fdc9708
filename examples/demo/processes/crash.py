"""The death of a producer at the worst moment: its batch is in the log, and it does not know so yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.log.format.entry import read_header
from penstock.log.paths import TopicPaths
from penstock.log.stores import Buffer, ObjectStore, PutMode, StoredObject, StoreWrapper, Version, join


@dataclass(frozen=True, slots=True)
class Unheard:
    """A batch whose acknowledgement never comes."""

    entry: int
    own_entry: bool
    """Whether its own producer appended the entry; otherwise the batch had been handed over."""
    events: int
    previous: int
    """The producer's last sequence before the batch."""
    last: int


class Deafened(StoreWrapper):
    """A store whose caller never learns that one of its batches is durable.

    The first answer that would acknowledge a batch of ``producer`` reaching ``sequence`` is held back for ever. It is the answer to the PUT
    of the entry, or, where the batch was handed over and another producer appended it, to the GET of that entry. So the moment is always
    reached, whatever the other producers do. ``heard`` is called instead.
    """

    def __init__(
        self, inner: ObjectStore, paths: TopicPaths, *, producer: str, sequence: int, heard: Callable[[Unheard], None]
    ) -> None:
        super().__init__(inner)
        self._paths = paths
        self._producer = producer
        self._sequence = sequence
        self._heard = heard

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        version = await super().put(key, data, mode=mode)
        await self._stop_if_carried(key, join(data), own_entry=True)
        return version

    async def get(self, key: str) -> StoredObject:
        found = await super().get(key)
        await self._stop_if_carried(key, found.data, own_entry=False)
        return found

    async def _stop_if_carried(self, key: str, data: bytes, *, own_entry: bool) -> None:
        entry = self._paths.entry_number(key)
        if entry is None:
            return
        for batch in read_header(data, where=key).batches:
            if batch.producer == self._producer and batch.last >= self._sequence:
                self._heard(Unheard(entry, own_entry, batch.row_count, batch.previous, batch.last))
                await asyncio.get_running_loop().create_future()
