"""A table of cells that takes refusals for passing faults for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ...log.errors import PenstockError
from ...log.stores.refusals import Refusals
from .protocol import BeginPut, Cell, CellTable, CellVersion, Told, begin_put_of


class TolerantTable:
    """The same table."""

    def __init__(self, inner: CellTable, refusals: Refusals) -> None:
        self._inner = inner
        self.refusals = refusals
        self.lists_cheaply = inner.lists_cheaply
        begin = begin_put_of(inner)
        self.begin_put: BeginPut | None = None if begin is None else partial(self._begin_put, begin)

    @property
    def url(self) -> str:
        return self._inner.url

    async def get(self, key: str) -> Cell | None:
        return await self.refusals.around("get", key, lambda: self._inner.get(key))

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        return await self.refusals.around("put", key, lambda: self._inner.put(key, data, expected=expected))

    def _begin_put(self, begin: BeginPut, key: str, data: bytes, expected: CellVersion | None, told: Told) -> None:
        begin(key, data, expected, lambda answer: told(self.refusals.heard("put", key, answer)))

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        await self.refusals.around("delete", key, lambda: self._inner.delete(key, expected=expected))

    async def keys(self, prefix: str) -> list[str]:
        return await self.refusals.around("list", prefix, lambda: self._inner.keys(prefix))

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        return await self.refusals.around("list", "", lambda: self._inner.read_all(prefixes, known=known))

    async def close(self) -> None:
        await self._inner.close()
