"""Cells as objects of the lake itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ...log.errors import ForeignObject, PenstockError
from ...log.runtime.runtime import Runtime
from ...log.runtime.shared_work import shared
from ...log.stores.probe import probe_conditional_writes
from ...log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, StoredObject, Version
from .protocol import Cell, CellVersion, check_cell, check_cell_key

FOLDER = "coordination/"
_MARK = b"PSC1"
_HEADER_BYTES = len(_MARK) + 16
_DELETED = b""
_READS_AT_ONCE = 16


class ObjectStoreTable:
    """A cell is the object ``coordination/<key>``, written by create and if-match.

    Every object starts with a fresh id, as equal bytes have equal versions. A deleted cell is an empty object: not all stores honour a conditional
    delete. Raises `UnsafeStoreError` at the first write to a store without conditional writes.
    """

    lists_cheaply = True

    def __init__(self, store: ObjectStore, *, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._check: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return self._store.url

    async def get(self, key: str) -> Cell | None:
        check_cell_key(key)
        found = await self._read(key)
        return (
            None if found is None or found.data == _DELETED else Cell(_content(found.data, key), CellVersion(found.version.token))
        )

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        check_cell(key, data)
        await self._writable()
        body = _MARK + self._runtime.random.getrandbits(128).to_bytes(16, "big") + data
        if expected is None:
            return await self._create(key, body)
        return await self._replace(key, body, Version(expected.token))

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        check_cell_key(key)
        await self._writable()
        await self._replace(key, _DELETED, Version(expected.token))

    async def keys(self, prefix: str) -> list[str]:
        listed = await self._store.list(FOLDER + prefix)
        return [info.key.removeprefix(FOLDER) for info in listed if info.size_bytes > len(_DELETED)]

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        """One LIST for each 1,000 cells, and one GET for each changed cell."""
        limit, found = asyncio.Semaphore(_READS_AT_ONCE), dict[str, Cell | CellVersion | PenstockError]()

        async def read(key: str) -> None:
            async with limit:
                try:
                    cell = await self.get(key)
                except PenstockError as error:
                    found[key] = error
                else:
                    if cell is not None:
                        found[key] = cell

        changed: list[str] = []
        for prefix in prefixes:
            for info in await self._store.list(FOLDER + prefix):
                key = info.key.removeprefix(FOLDER)
                before = known.get(key)
                if before is not None and info.tag and Version(before.token).tag == info.tag:
                    found[key] = before
                elif info.size_bytes > len(_DELETED):
                    changed.append(key)
        await asyncio.gather(*map(read, changed))
        return found

    async def close(self) -> None:
        if self._check is not None:
            self._check.cancel()
            await asyncio.gather(self._check, return_exceptions=True)

    async def _create(self, key: str, body: bytes) -> CellVersion:
        try:
            return CellVersion((await self._store.put(FOLDER + key, body, mode=Put.CREATE)).token)
        except Conflict:
            # An empty object never vanishes, so the create that it refused cannot land any more: the write below is still the first
            # try.
            found = await self._read(key)
            if found is None or found.data != _DELETED:
                raise
            return await self._replace(key, body, found.version)

    async def _replace(self, key: str, body: bytes, version: Version) -> CellVersion:
        return CellVersion((await self._store.put(FOLDER + key, body, mode=IfMatch(version))).token)

    async def _read(self, key: str) -> StoredObject | None:
        try:
            return await self._store.get(FOLDER + key)
        except ObjectMissing:
            return None

    async def _writable(self) -> None:
        check = self._check
        if check is None or (check.done() and (check.cancelled() or check.exception())):
            check = self._check = shared(asyncio.ensure_future(probe_conditional_writes(self._store, self._runtime)))
        await asyncio.shield(check)


def _content(data: bytes, key: str) -> bytes:
    if len(data) < _HEADER_BYTES or not data.startswith(_MARK):
        raise ForeignObject("not a cell that Penstock wrote", operation="get", object=FOLDER + key, observed=f"{len(data)} bytes")
    return data[_HEADER_BYTES:]
