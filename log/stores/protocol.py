"""The one interface between Penstock and object storage.

Eight verbs, each with the weakest guarantee that the protocols need. A backend translates foreign errors to the types named here
and in `errors`, and nothing above it knows which store it is. ``tests/log/stores/contract.py`` is the executable form of this page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from ..errors import InvalidArgument, PenstockError
from ..limits import MIB

PART_BYTES = 16 * MIB
"""What `ObjectStore.put_large` cuts a large object into, where the store takes parts."""
HIDDEN_FOLDER = ".penstock"
"""Belongs to the local store; no key lies in it."""
_DELETES_AT_ONCE = 16
Buffer: TypeAlias = bytes | bytearray | memoryview


class ObjectMissing(PenstockError, LookupError):
    """There is no object under this key."""

    kind = "object_missing"


class Conflict(PenstockError):
    """A conditional write was not confirmed.

    It says that the store refused (412) or could not decide (409), not that the write did not happen: the store may be refusing
    the client's own earlier attempt. Read the object back and compare write ids.
    """

    kind = "conflict"


@dataclass(frozen=True, slots=True)
class Version:
    """A witness of one stored state of an object; only a store makes them, and only to be handed back in `IfMatch`."""

    token: str

    @property
    def tag(self) -> str:
        """The part of it that a LIST shows too (`ObjectInfo.tag`)."""
        return self.token.partition("\n")[0]


class Put(Enum):
    """Preconditions of a write that need no witness."""

    CREATE = "create"
    """Only if there is no object under the key (``If-None-Match: *``)."""
    REPLACE = "replace"
    """Whatever is there."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """Only if the object is still the one this version was read from."""

    version: Version


PutMode: TypeAlias = Put | IfMatch


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a LIST says of an object."""

    key: str
    size_bytes: int
    last_modified_ms: int
    """The time by the store's clock; on S3 cut to the second."""
    tag: str = ""
    """The tag of the object's version. An object that was written since has another. Empty: the store does not show it."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as it was read, whole."""

    data: bytes
    version: Version
    last_modified_ms: int


@runtime_checkable
class ObjectStore(Protocol):
    """A place for objects under one root. Keys are relative, with ``/`` between parts and no leading one.

    All methods may raise `StoreUnavailable` (outcome unknown: for a write it may still land later), `PermissionDenied` and
    `StorageFull`. Reads retry passing faults by themselves within the backend's time-out; a write is tried exactly once, as a
    hidden second try could meet its own first one. Only `put_large`, whose key is fresh, may retry its parts.

    Every call with a key or prefix that not every store can hold raises `InvalidArgument`: see `keys`.
    """

    @property
    def url(self) -> str:
        """Where the root is, for people and error messages; without secrets."""
        ...

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        """Write one object in one request, all or nothing, durable on return. ``data`` may come in pieces.

        Raises `Conflict` when ``mode`` is conditional and the store did not confirm it.
        """
        ...

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        """Write one object of any size under a fresh key, by parallel parts where the store has them; unconditional."""
        ...

    async def get(self, key: str) -> StoredObject:
        """Read a whole object. Raises `ObjectMissing`."""
        ...

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        """Read bytes ``start`` (inclusive) to ``limit`` (exclusive). A negative ``start`` with limit 0 counts from the end.

        The result is shorter than asked for where the object ends. Raises `ObjectMissing`.
        """
        ...

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[ObjectInfo]:
        """The objects whose keys start with ``prefix`` (plain text, not a folder), by key, only those above ``after``.

        At most ``max_keys`` of them when given (the first in key order), else all. Sees every write that ended before the call.
        """
        ...

    async def list_folders(self, prefix: str) -> Sequence[str]:
        """The distinct next path parts below the folder ``prefix`` (which ends with ``/``) that have objects below them."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object; fine when there is none."""
        ...

    async def clock_ms(self) -> int:
        """The store's clock, in milliseconds since the epoch; may write and remove an object under ``.clock/`` to learn it."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads."""
        ...


def check_key(key: str) -> None:
    """Raise `InvalidArgument` unless every store accepts ``key``, so that a lake can be copied from one store to another.

    Such a key is relative, has no empty, ``.`` or ``..`` part and is not hidden.
    """
    parts = key.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts) or parts[0] == HIDDEN_FOLDER:
        raise InvalidArgument("bad key", object=key, expected=f"non-empty parts between '/', no '..', not in {HIDDEN_FOLDER}")


def check_prefix(prefix: str) -> None:
    """Raise `InvalidArgument` unless keys can start with ``prefix``."""
    folder = prefix.rpartition("/")[0]
    if folder:
        check_key(folder)
    elif prefix.startswith("/"):
        raise InvalidArgument("bad prefix", object=prefix, expected="no '/' at the start")


async def delete_all(store: ObjectStore, keys: Iterable[str]) -> int:
    """Delete these objects in order, 16 side by side. Returns how many. An error is raised, and the objects after it stay."""
    waiting = list(keys)
    for start in range(0, len(waiting), _DELETES_AT_ONCE):
        await asyncio.gather(*(store.delete(key) for key in waiting[start : start + _DELETES_AT_ONCE]))
    return len(waiting)
