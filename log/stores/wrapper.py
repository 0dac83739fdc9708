"""The base of stores that wrap another: every call passes one point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .memory import join
from .protocol import Buffer, IfMatch, ObjectInfo, ObjectStore, Put, PutMode, StoredObject, Version

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreCall:
    """One call of a store."""

    verb: str
    """``put``, ``put_large``, ``get``, ``list``, ``delete`` or ``clock``."""
    key: str
    """Or the prefix of a list."""
    sent_bytes: int = 0
    mode: PutMode | None = None

    @property
    def is_write(self) -> bool:
        return self.verb in {"put", "put_large", "delete"}

    @property
    def is_conditional(self) -> bool:
        return self.mode is Put.CREATE or isinstance(self.mode, IfMatch)


class StoreWrapper:
    """A store that passes every call on through `_around`."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner

    @property
    def inner(self) -> ObjectStore:
        return self._inner

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        """Carry out ``call`` by awaiting ``run()`` any number of times."""
        return await run()

    @property
    def url(self) -> str:
        return self._inner.url

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        body = join(data)
        return await self._around(StoreCall("put", key, len(body), mode), lambda: self._inner.put(key, body, mode=mode))

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        body = join(data)
        await self._around(StoreCall("put_large", key, len(body)), lambda: self._inner.put_large(key, body))

    async def get(self, key: str) -> StoredObject:
        return await self._around(StoreCall("get", key), lambda: self._inner.get(key))

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        return await self._around(StoreCall("get", key), lambda: self._inner.get_range(key, start, limit))

    async def list_folders(self, prefix: str) -> Sequence[str]:
        return await self._around(StoreCall("list", prefix), lambda: self._inner.list_folders(prefix))

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[ObjectInfo]:
        return await self._around(StoreCall("list", prefix), lambda: self._inner.list(prefix, after=after, max_keys=max_keys))

    async def delete(self, key: str) -> None:
        await self._around(StoreCall("delete", key), lambda: self._inner.delete(key))

    async def clock_ms(self) -> int:
        return await self._around(StoreCall("clock", ""), self._inner.clock_ms)

    async def close(self) -> None:
        await self._inner.close()


def received_bytes(answer: object) -> int:
    if isinstance(answer, StoredObject):
        return len(answer.data)
    return len(answer) if isinstance(answer, bytes) else 0
