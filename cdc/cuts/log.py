"""The cuts of one sync beside its targets: objects ``_cuts/<sync>/<number of its first cut>.json``.

The newest object is replaced by compare-and-set until it is full. A cut is a fact about immutable versions, so any writer is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...log.errors import InvalidArgument
from ...log.runtime.runtime import Runtime
from ...log.stores.open import open_store
from ...log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, Version
from .cut import Cut, follows
from .segment import BYTES_MAX, Segment, decode, encode, with_cut

FOLDER = "_cuts"
"""The folder beside the targets, whose names never begin with ``_``."""
_DIGITS = 20
_SUFFIX = ".json"


def open_cuts(into: str, *, runtime: Runtime | None = None) -> ObjectStore:
    return open_store(folder_in(into, FOLDER), runtime=runtime)


def folder_in(into: str, name: str) -> str:
    """The options of ``into`` are kept."""
    root, question, options = into.replace("s3a://", "s3://", 1).partition("?")
    return f"{root.rstrip('/')}/{name}{question}{options}"


def key_of(sync: str, first: int) -> str:
    return f"{sync}/{first:0{_DIGITS}d}{_SUFFIX}"


def first_of(key: str) -> int | None:
    """The number of an object's first cut; None for other names."""
    name = key.rpartition("/")[2].removesuffix(_SUFFIX)
    return int(name) if len(name) == _DIGITS and name.isdecimal() and key.endswith(_SUFFIX) else None


async def keys_of(store: ObjectStore, sync: str) -> list[str]:
    """The oldest first."""
    return sorted(one.key for one in await store.list(f"{sync}/") if first_of(one.key) is not None)


async def segments_of(store: ObjectStore, keys: Sequence[str]) -> list[Segment]:
    """Each object without the cuts of later ones, which a driver that stood still may have added late."""
    found = []
    for place, key in enumerate(keys):
        try:
            segment: Segment | None = decode((await store.get(key)).data, where=key)
        except ObjectMissing:  # it has been trimmed meanwhile
            continue
        if segment is not None and place + 1 < len(keys) and (following := first_of(keys[place + 1])) is not None:
            segment = segment.before(following)
        if segment is not None:
            found.append(segment)
    return found


class CutLog:
    """The cuts of one sync, for its driver."""

    def __init__(self, store: ObjectStore, *, topic: str, sync: str, keep_ms: int, name: str) -> None:
        """``keep_ms``: the least age of removed cuts. ``name``: the place, in errors."""
        self._store, self._topic, self._sync, self._keep_ms, self._name = store, topic, sync, keep_ms, name
        self._segment: Segment | None = None
        self._version: Version | None = None
        self._bytes_max = BYTES_MAX

    @property
    def newest(self) -> Cut | None:
        return None if self._segment is None else self._segment.cuts[-1]

    async def load(self) -> None:
        """Raises `InvalidArgument` for another topic's cuts, `DataDamaged`, and the store's errors."""
        self._segment = self._version = None
        for key in reversed(await keys_of(self._store, self._sync)):
            try:
                found = await self._store.get(key)
            except ObjectMissing:  # another driver has gone on since they were listed, and removed it
                await self.load()
                return
            self._segment, self._version = decode(found.data, where=key), found.version
            first = replace(self._segment, cuts=self._segment.cuts[:1])
            self._bytes_max = max(BYTES_MAX, 2 * len(encode(first)))
            if self._segment.topic != self._topic:
                raise InvalidArgument(
                    "a sync of this name, of another topic, keeps its cuts here",
                    operation="sync",
                    object=f"{self._name}/{key}",
                    expected=self._topic,
                    observed=self._segment.topic,
                    hint="give this one a name of its own: name=… (--name)",
                )
            return

    async def add(self, cut: Cut) -> Cut | None:
        """None: another driver has gone further."""
        while follows(self.newest, cut):
            numbered = replace(cut, number=1 if self.newest is None else self.newest.number + 1)
            longer = None if self._segment is None else with_cut(self._segment, numbered)
            data = b"" if longer is None else encode(longer)
            if longer is None or len(data) > self._bytes_max:
                longer = Segment(self._topic, self._sync, (numbered,))
                data = encode(longer)
            begins = longer.first == numbered.number
            assert begins or self._version is not None, "what is made longer was read"
            mode = Put.CREATE if begins or self._version is None else IfMatch(self._version)
            key = key_of(self._sync, longer.first)
            try:
                self._version = await self._store.put(key, data, mode=mode)
            except Conflict:
                await self.load()
                if (newest := self.newest) is not None and replace(newest, number=numbered.number) == numbered:
                    return newest  # our own write, whose answer was lost, or another's of the same
                continue
            self._segment = longer
            if begins:
                self._bytes_max = max(BYTES_MAX, 2 * len(data))
                await self._trim(cut.at_ms)
            return numbered
        return None

    async def _trim(self, now_ms: int) -> None:
        """Delete objects whose cuts are all too old. An object ends before the next one begins."""
        keys = await keys_of(self._store, self._sync)
        for key in keys[:-1]:
            try:
                newest = decode((await self._store.get(key)).data, where=key).cuts[-1]
            except ObjectMissing:
                continue
            if newest.at_ms >= now_ms - self._keep_ms:
                return
            await self._store.delete(key)
