"""A capture's state in the lake: one object, written by compare-and-set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from ...log.errors import FencedError
from ...log.paths import topic_folder
from ...log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, Version
from ..events.table_types import CAPTURES

_TAKE_OVERS_MAX = 5


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The state of a capture and one topic."""

    life: str
    """The topic's life: a topic of the same name made anew has another."""


C = TypeVar("C", bound=CaptureState)


class AsyncRunner(Protocol):
    """Runs a coroutine to its end."""

    def __call__(self, work: Callable[[], Awaitable[Any]], /) -> Any: ...  # noqa: ANN401


class StateStore(ABC, Generic[C]):
    """Reads and writes a state. Only its last reader or writer may write it next."""

    format: ClassVar[int]

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str, folder: str, name: str) -> None:
        """``folder``: of such captures in the topic's. ``name``: the object's there."""
        self._store, self._run = store, run
        self._captures = f"{CAPTURES}{topic_folder(topic)}/{folder}"
        self.key = f"{self._captures}{name}"
        self._version: Version | None = None

    @staticmethod
    @abstractmethod
    def parse(data: bytes, where: str) -> C:
        """A stored state. Raises `DataDamaged`, `NewerFormatError`."""

    @classmethod
    def encode(cls, state: C) -> bytes:
        """The inverse of `parse`."""
        return msgspec.json.encode({"format": cls.format, **{field.name: getattr(state, field.name) for field in fields(state)}})

    @staticmethod
    @abstractmethod
    def _is_state(key: str) -> bool:
        """Whether a key in the folder is of a state."""

    def load(self) -> C | None:
        """The stored state. Raises `DataDamaged`, `NewerFormatError`."""
        try:
            found = self._run(lambda: self._store.get(self.key))
        except ObjectMissing:
            self._version = None
            return None
        self._version = found.version
        return self.parse(bytes(found.data), self.key)

    def others(self) -> dict[str, C]:
        """The states of other captures of this kind into the topic, by key. Raises as `load`."""
        keys = [found.key for found in self._run(lambda: self._store.list(self._captures)) if self._is_state(found.key)]
        return {key: self.parse(self._run(partial(self._store.get, key)).data, key) for key in keys if key != self.key}

    def save(self, state: C) -> None:
        """Replace the stored state. Raises `FencedError` when another capture has written it meanwhile."""
        data = self.encode(state)
        mode: PutMode = Put.CREATE if self._version is None else IfMatch(self._version)
        try:
            self._version = self._run(lambda: self._store.put(self.key, data, mode=mode))
        except Conflict as error:
            try:
                found = self._run(lambda: self._store.get(self.key))
            except ObjectMissing:
                raise error from None
            if found.data != data:  # our own write, whose answer was lost, would be the same
                raise self._fenced(self.key) from error
            self._version = found.version

    def remove(self) -> None:
        self._run(lambda: self._store.delete(self.key))
        self._version = None

    def _claim(self, claimed: Callable[[C], C | None]) -> C | None:
        """The stored state, replaced by what ``claimed`` makes of it, so that an earlier process's writes fail from then on. None:
        it stays.
        """
        attempts = 0
        while (state := self.load()) is not None and (mine := claimed(state)) is not None:
            try:
                self.save(mine)
            except FencedError:  # the earlier process has just written
                attempts += 1
                if attempts == _TAKE_OVERS_MAX:
                    raise
            else:
                return mine
        return state

    def _is_mine(self) -> bool:
        try:
            return bool(self._run(lambda: self._store.get(self.key)).version == self._version)
        except ObjectMissing:
            return False

    def _fenced(self, key: str) -> FencedError:
        return FencedError("another capture of this name runs", operation="capture", object=key)
