"""The interface to object storage, with the weakest guarantees that the protocols need.

Backends raise only errors named here and in `errors`. ``tests/log/stores/contract.py`` is the executable form.
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
"""The part size of `ObjectStore.put_large`, where the store takes parts."""
HIDDEN_FOLDER = ".penstock"
"""The local store's; no key lies in it."""
_DELETES_AT_ONCE = 16
Buffer: TypeAlias = bytes | bytearray | memoryview


class ObjectMissing(PenstockError, LookupError):
    """There is no object under this key."""

    kind = "object_missing"


class Conflict(PenstockError):
    """The store refused a conditional write (412) or could not decide (409), perhaps because of the client's own earlier attempt: read the object
    back and compare write ids.
    """

    kind = "conflict"


@dataclass(frozen=True, slots=True)
class Version:
    """A witness of an object's stored state, made only by stores."""

    token: str

    @property
    def tag(self) -> str:
        """The part that a LIST shows too (`ObjectInfo.tag`)."""
        return self.token.partition("\n")[0]


class Put(Enum):
    """A precondition without a witness."""

    CREATE = "create"
    """If the key has no object (``If-None-Match: *``)."""
    REPLACE = "replace"
    """Unconditional."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """If the object still has this version."""

    version: Version


PutMode: TypeAlias = Put | IfMatch


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a LIST."""

    key: str
    size_bytes: int
    last_modified_ms: int
    """The store's clock; on S3 cut to the second."""
    tag: str = ""
    """The version's tag. Empty: not shown."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A whole object."""

    data: bytes
    version: Version
    last_modified_ms: int


@runtime_checkable
class ObjectStore(Protocol):
    """Objects under one root. Keys are relative, with ``/`` between parts and no leading one.

    All methods may raise `StoreUnavailable` (outcome unknown: a write may still land later), `PermissionDenied` and `StorageFull`. Reads retry
    passing faults within the backend's time-out. A write is tried exactly once, as a second try could meet the first; only `put_large`, whose key is
    fresh, may retry its parts.

    A key or prefix that not every store accepts raises `InvalidArgument` (`check_key`).
    """

    @property
    def url(self) -> str:
        """The root, without secrets."""
        ...

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        """Write one object in one request, all or nothing, durable on return. Raises `Conflict` when the store does not confirm a conditional
        ``mode``.
        """
        ...

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        """Write an object of any size under a fresh key, unconditionally, by parallel parts where the store has them."""
        ...

    async def get(self, key: str) -> StoredObject:
        """Read a whole object. Raises `ObjectMissing`."""
        ...

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        """Read bytes ``start`` (inclusive) to ``limit`` (exclusive), fewer where the object ends. Raises `ObjectMissing`.

        A negative ``start`` with limit 0 counts from the end.
        """
        ...

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[ObjectInfo]:
        """The first ``max_keys`` objects, in key order, whose keys start with ``prefix`` (plain text, no folder) and are above ``after``. Sees every
        write that ended before the call.
        """
        ...

    async def list_folders(self, prefix: str) -> Sequence[str]:
        """The distinct next path parts below the folder ``prefix`` (which ends with ``/``)."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object, if there is one."""
        ...

    async def clock_ms(self) -> int:
        """Milliseconds since the epoch; may write and remove an object under ``.clock/``."""
        ...

    async def close(self) -> None: ...


def check_key(key: str) -> None:
    """Raise `InvalidArgument` unless ``key`` is relative, without empty, ``.`` or ``..`` parts, not hidden."""
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
    """Delete objects in order, 16 side by side, and return how many. After an error the later objects stay."""
    waiting = list(keys)
    for start in range(0, len(waiting), _DELETES_AT_ONCE):
        await asyncio.gather(*(store.delete(key) for key in waiting[start : start + _DELETES_AT_ONCE]))
    return len(waiting)
