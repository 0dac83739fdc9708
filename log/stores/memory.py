"""A deterministic store in memory, for tests, examples and the simulation."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ..runtime.runtime import Clock, SystemClock
from .protocol import (
    Buffer,
    Conflict,
    IfMatch,
    ObjectInfo,
    ObjectMissing,
    Put,
    PutMode,
    StoredObject,
    Version,
    check_key,
    check_prefix,
)


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    version: Version
    last_modified_ms: int


class MemoryStore:
    """A deterministic store in memory, for tests, examples and the simulation. Calls are linearizable, also between threads."""

    def __init__(self, *, name: str = "", clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._objects: dict[str, _Object] = {}
        self._keys: list[str] = []
        self._writes = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        check_key(key)
        body = join(data)
        with self._lock:
            present = self._objects.get(key)
            if mode is Put.CREATE and present is not None:
                raise Conflict("the object exists", operation="create", object=key)
            if isinstance(mode, IfMatch) and (present is None or present.version != mode.version):
                raise Conflict(
                    "the object has changed",
                    operation="replace",
                    object=key,
                    expected=mode.version.token,
                    observed=present.version.token if present else "absent",
                )
            self._writes += 1
            stored = _Object(body, Version(str(self._writes)), self._clock.wall_ms())
            if present is None:
                insort(self._keys, key)
            self._objects[key] = stored
        return stored.version

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        await self.put(key, data, mode=Put.REPLACE)

    async def get(self, key: str) -> StoredObject:
        found = self._find(key)
        return StoredObject(found.data, found.version, found.last_modified_ms)

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        data = self._find(key).data
        return data[start:] if start < 0 else data[start:limit]

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[ObjectInfo]:
        check_prefix(prefix)
        with self._lock:
            start = bisect_left(self._keys, prefix)
            if after is not None:
                start = max(start, bisect_right(self._keys, after))
            found: list[ObjectInfo] = []
            for key in islice(self._keys, start, None):
                if not key.startswith(prefix) or (max_keys is not None and len(found) >= max_keys):
                    break
                held = self._objects[key]
                found.append(ObjectInfo(key, len(held.data), held.last_modified_ms, held.version.tag))
            return found

    async def list_folders(self, prefix: str) -> Sequence[str]:
        below = [info.key[len(prefix) :] for info in await self.list(prefix)]
        return sorted({key.partition("/")[0] for key in below if "/" in key})

    async def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            if self._objects.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    async def clock_ms(self) -> int:
        return self._clock.wall_ms()

    async def close(self) -> None:
        pass

    def _find(self, key: str) -> _Object:
        check_key(key)
        found = self._objects.get(key)
        if found is None:
            raise ObjectMissing("there is no such object", operation="read", object=key)
        return found


def join(data: Buffer | Sequence[Buffer]) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    return b"".join(data)
