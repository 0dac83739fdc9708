"""Raises the log's floor to what is published and compared, and deletes below a floor that stood for an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import DataDamaged
from ..format.checkpoint import decode_checkpoint, encode_checkpoint
from ..format.floor import decode_floor, encode_floor
from ..format.state import TopicState
from ..limits import TRIM_GRACE_MS
from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, Version, delete_all

_LISTED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class LogFloor:
    """The floor object, or number 0 without a version."""

    number: int = 0
    version: Version | None = None
    since_ms: int = 0
    """Its Last-Modified time."""


@dataclass(frozen=True, slots=True)
class TrimResult:
    """The result of one round."""

    floor: int = 0
    entries: int = 0
    checkpoints: int = 0


class Trimmer:
    """Trims one topic's log. Every guard is a method."""

    def __init__(self, store: ObjectStore, paths: TopicPaths, runtime: Runtime) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime

    async def trim_once(self, *, published: int, compared: int, states: Mapping[int, TopicState], whole: bool) -> TrimResult:
        """Delete what may go, then raise the floor if it may be raised.

        ``states`` are those of a fold up to ``compared``; only a checkpoint that equals one becomes the floor. ``whole``: the fold passed over no
        entry, so a missing checkpoint may be written from it.
        """
        floor = await read_floor_object(self._store, self._paths)
        now_ms = await self._store.clock_ms()
        if not self.has_stood(floor, now_ms):
            return TrimResult(floor.number)
        entries, checkpoints = await self._delete_below(floor.number) if floor.number else (0, 0)
        if whole:
            await self._write_missing(states, self.bound(published, compared))
        number = await self._candidate(floor.number, self.bound(published, compared), states)
        raised = number is not None and await self._raise(floor, number)
        return TrimResult(number if raised and number is not None else floor.number, entries, checkpoints)

    def has_stood(self, floor: LogFloor, now_ms: int) -> bool:
        """Whether the floor has stood so long, by the store's clock, that no live view lies at or below it."""
        return floor.version is None or now_ms - floor.since_ms > TRIM_GRACE_MS

    def bound(self, published: int, compared: int) -> int:
        """The highest floor: published, and found equal."""
        return min(published, compared)

    def is_anchor(self, state: TopicState, expected: TopicState | None) -> bool:
        return expected is not None and state.digest == expected.digest

    async def _candidate(self, floor: int, bound: int, states: Mapping[int, TopicState]) -> int | None:
        listed = await self._store.list(self._paths.checkpoints, after=self._paths.checkpoint(floor))
        numbers = [n for info in listed if (n := self._paths.checkpoint_entry(info.key)) is not None]
        for number in sorted((n for n in numbers if floor < n <= bound), reverse=True):
            key = self._paths.checkpoint(number)
            try:
                state = decode_checkpoint((await self._store.get(key)).data, where=key)
            except (ObjectMissing, DataDamaged):
                continue
            if state.entry == number and self.is_anchor(state, states.get(number)):
                return number
        return None

    async def _write_missing(self, states: Mapping[int, TopicState], bound: int) -> None:
        number = max((n for n in states if n <= bound), default=0)
        if number:
            try:
                await self._store.put(self._paths.checkpoint(number), encode_checkpoint(states[number]), mode=Put.CREATE)
            except Conflict:
                return

    async def _raise(self, floor: LogFloor, number: int) -> bool:
        document = encode_floor(number, write_id=self._runtime.new_id())
        mode: PutMode = Put.CREATE if floor.version is None else IfMatch(floor.version)
        try:
            await self._store.put(self._paths.floor, document, mode=mode)
        except Conflict:
            return False  # another trimmer raised it, or this one did: the next round reads it
        return True

    async def _delete_below(self, floor: int) -> tuple[int, int]:
        """Delete entries up to the floor and checkpoints below it, oldest first."""
        entries = 0
        while numbers := await self._oldest_entries(floor):
            entries += await delete_all(self._store, map(self._paths.entry, numbers))
        listed = await self._store.list(self._paths.checkpoints)
        old = [info.key for info in listed if (n := self._paths.checkpoint_entry(info.key)) is not None and n < floor]
        return entries, await delete_all(self._store, old)

    async def _oldest_entries(self, floor: int) -> list[int]:
        listed = await self._store.list(self._paths.log, max_keys=_LISTED_AT_ONCE)
        return [n for info in listed if (n := self._paths.entry_number(info.key)) is not None and n <= floor]


async def read_floor_object(store: ObjectStore, paths: TopicPaths) -> LogFloor:
    """The floor with its version and age. Raises `DataDamaged`."""
    try:
        stored = await store.get(paths.floor)
        return LogFloor(decode_floor(stored.data, where=paths.floor), stored.version, stored.last_modified_ms)
    except ObjectMissing:
        return LogFloor()
