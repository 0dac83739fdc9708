"""A capture's small object, written by compare-and-set: only its last reader or writer may write it next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ...log.errors import FencedError
from ...log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, Version


class AsyncRunner(Protocol):
    """Runs a coroutine to its end."""

    def __call__(self, work: Callable[[], Awaitable[Any]], /) -> Any: ...  # noqa: ANN401


class StateObject:
    """The object under one key."""

    def __init__(self, store: ObjectStore, run: AsyncRunner, key: str) -> None:
        self._store, self._run, self.key = store, run, key
        self._version: Version | None = None

    def read(self) -> bytes | None:
        try:
            found = self._run(lambda: self._store.get(self.key))
        except ObjectMissing:
            self._version = None
            return None
        self._version = found.version
        return bytes(found.data)

    def write(self, data: bytes) -> None:
        """Replace the stored bytes. Raises `FencedError` when another process has written meanwhile."""
        mode: PutMode = Put.CREATE if self._version is None else IfMatch(self._version)
        try:
            self._version = self._run(lambda: self._store.put(self.key, data, mode=mode))
        except Conflict as error:
            try:
                found = self._run(lambda: self._store.get(self.key))
            except ObjectMissing:
                raise error from None
            if found.data != data:  # our own write, whose answer was lost, would be the same
                raise self.fenced() from error
            self._version = found.version

    def remove(self) -> None:
        self._run(lambda: self._store.delete(self.key))
        self._version = None

    def is_mine(self) -> bool:
        try:
            return bool(self._run(lambda: self._store.get(self.key)).version == self._version)
        except ObjectMissing:
            return False

    def fenced(self, key: str | None = None) -> FencedError:
        """The error for a process whose object another one has written."""
        return FencedError("another capture of this name runs", operation="capture", object=key or self.key)
