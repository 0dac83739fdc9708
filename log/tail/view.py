"""One process's view of a topic's log: the fold up to some entry, and how long it may be trusted.

An absent key proves the tail only while the key cannot have been trimmed. An answer that comes when the view's last proof is too old counts only
after a later read of the floor (docs/0001, "Views age"). Reading an entry is no proof: deletions may be near.

A proof is about the entry at which the view stands: once the view has moved, an answer about the former entry does not count.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate

from ..errors import DataDamaged, StoreUnavailable, ViewLost
from ..format.checkpoint import decode_checkpoint
from ..format.entry import read_header
from ..format.floor import decode_floor
from ..format.fold import FoldedEntry, fold
from ..format.state import TopicState
from ..limits import MIB, VIEW_AGE_MAX_S
from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectMissing, ObjectStore, StoredObject
from .damage import find_resumption, of_the_log
from .rhythm import Rhythm


class EntryCache:
    """The bytes of recent entries, shared by all views of a topic in this process. Only proved answers are put in."""

    def __init__(self, size_bytes_max: int = 32 * MIB) -> None:
        self._entries: OrderedDict[int, bytes] = OrderedDict()
        self._size_bytes = 0
        self._size_bytes_max = size_bytes_max

    def get(self, number: int) -> bytes | None:
        return self._entries.get(number)

    def clear(self) -> None:
        self._entries.clear()
        self._size_bytes = 0

    def put(self, number: int, data: bytes) -> None:
        if number in self._entries:
            return
        self._entries[number] = data
        self._size_bytes += len(data)
        while self._size_bytes > self._size_bytes_max:
            _, dropped = self._entries.popitem(last=False)
            self._size_bytes -= len(dropped)


async def read_floor(store: ObjectStore, paths: TopicPaths) -> int:
    """The number of the checkpoint from which the log is kept; 0 while nothing was trimmed."""
    try:
        return decode_floor((await store.get(paths.floor)).data, where=paths.floor)
    except ObjectMissing:
        return 0


class View:
    """A fold that moves entry by entry.

    ``on_fold`` is called for every folded entry, ``on_jump`` when entries were passed over: the view aged below the floor, or was led around damage.
    """

    def __init__(self, store: ObjectStore, paths: TopicPaths, runtime: Runtime, *, cache: EntryCache | None = None) -> None:
        self._store = store
        self._paths = paths
        self._clock = runtime.clock
        self._cache = cache or EntryCache()
        self._proof_s = float("-inf")
        self.state = TopicState()
        self._highest = 0
        """The highest entry seen. A missing entry below is lost, not the tail."""
        self._last_bytes = 1
        self.rhythm = Rhythm()
        self.skipped = False
        """Whether this fold passed over an entry; then it writes no checkpoints."""
        self.on_fold: Callable[[FoldedEntry, bytes], None] | None = None
        self.on_jump: Callable[[TopicState], None] | None = None

    async def open(self, *, at_most: int | None = None, suits: Callable[[TopicState], bool] | None = None) -> None:
        """Start from the newest good checkpoint up to ``at_most``.

        With ``suits``, start from the last later checkpoint that suits; no state after an unsuitable one may suit.

        Raises `ViewLost` when ``at_most`` lies below the floor, and `DataDamaged` without a readable checkpoint.
        """
        state, sent_s = await self._start(at_most, suits)
        if state.entry >= self.state.entry:  # else another task of this process has moved on meanwhile
            self.state = state
        self._proof_s = max(self._proof_s, sent_s)

    async def _start(self, at_most: int | None, suits: Callable[[TopicState], bool] | None) -> tuple[TopicState, float]:
        while True:
            sent_s = self._clock.monotonic_s()
            floor = await read_floor(self._store, self._paths)
            if at_most is not None and at_most < floor:
                raise ViewLost("the log has been trimmed past this entry", object=self._paths.log, expected=at_most, observed=floor)
            try:
                return await self._newest_checkpoint(floor, at_most, suits), sent_s
            except DataDamaged:
                if await read_floor(self._store, self._paths) == floor:
                    raise  # else what was listed has been trimmed before it was read

    async def _newest_checkpoint(self, floor: int, at_most: int | None, suits: Callable[[TopicState], bool] | None) -> TopicState:
        listed = await self._store.list(self._paths.checkpoints, after=self._paths.checkpoint(floor - 1) if floor else None)
        numbers = [number for info in listed if (number := self._paths.checkpoint_entry(info.key)) is not None]
        if at_most is not None and suits is not None:
            later = await self._last_that(suits, sorted(number for number in numbers if number > at_most))
            if later is not None:
                return later
        worst: DataDamaged | None = None
        for number in sorted(numbers, reverse=True):
            if at_most is not None and number > at_most:
                continue
            try:
                return await self._checkpoint(number)
            except DataDamaged as error:
                worst = error
            except ObjectMissing:
                continue
        if floor == 0:
            return TopicState()
        raise DataDamaged(
            "no checkpoint above the floor can be read, so nothing tells the state of the log",
            operation="open the log",
            object=worst.object if worst else self._paths.checkpoints,
            expected=f"a checkpoint of entry {floor} or later",
            observed=worst.message if worst else "none",
            hint=f"put it back as it was, if there is a copy; a repair needs one too. The table has every row up to entry {floor}",
        ) from worst

    async def _last_that(self, suits: Callable[[TopicState], bool], numbers: list[int]) -> TopicState | None:
        """The state of the last suitable checkpoint, by bisection. Unreadable ones do not suit."""
        last, low, high = None, 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            try:
                state = await self._checkpoint(numbers[middle])
            except (DataDamaged, ObjectMissing):
                high = middle
                continue
            if suits(state):
                last, low = state, middle + 1
            else:
                high = middle
        return last

    async def _checkpoint(self, number: int) -> TopicState:
        """Raises `ObjectMissing` and `DataDamaged`."""
        key = self._paths.checkpoint(number)
        state = decode_checkpoint((await self._store.get(key)).data, where=key)
        if state.entry != number:
            raise DataDamaged("the checkpoint is of another entry", object=key, expected=number, observed=state.entry)
        return state

    async def step(self) -> bool:
        """Fold the next entry if there is one. Raises `ViewLost`, or `DataDamaged` when there is no way around a damaged entry."""
        if self._cache.get(self.state.entry + 1) is None:
            await self._fetch_ahead()
        v = self.state.entry
        data = self._cache.get(v + 1)
        if data is None:
            sent_s, highest = self._clock.monotonic_s(), self._highest
            try:
                data = (await self._store.get(self._paths.entry(v + 1))).data
            except ObjectMissing:
                data = None
            await self.confirm(v)
            if not self.is_ahead(v + 1):
                return True
            if data is None and v + 1 <= highest:
                await self._lead_around(v + 1, self._missing(v + 1))
                return True
            if data is None:
                self.rhythm.silent(self._clock.wall_ms())
                self.prove(v, sent_s)
                return False
        await self.take(v + 1, data)
        return True

    async def take(self, number: int, data: bytes) -> None:
        if number != self.state.entry + 1:
            return
        where = self._paths.entry(number)
        try:
            folded = fold(self.state, read_header(data, where=where, number=number), where=where)
        except DataDamaged as error:
            await self._lead_around(number, error)
        else:
            self._advance(folded, data)

    async def take_own(self, data: bytes, folded: FoldedEntry, *, before: TopicState) -> None:
        """Take an entry of this process, of which it knows what the fold makes of it on the state ``before``."""
        if before is self.state:
            self._advance(folded, data)
        else:
            await self.take(folded.number, data)

    def _advance(self, folded: FoldedEntry, data: bytes) -> None:
        self.state = folded.state
        self.rhythm.note(folded.header.append_time_ms)
        self._last_bytes = max(1, len(data))
        self._cache.put(folded.number, data)
        if self.on_fold:
            self.on_fold(folded, data)

    @property
    def is_aged(self) -> bool:
        return self._clock.monotonic_s() - self._proof_s > VIEW_AGE_MAX_S

    async def confirm(self, v: int) -> None:
        """Raise `ViewLost` unless a fresh answer about entry ``v + 1`` can be trusted."""
        if not self.is_aged:
            return
        now_s = self._clock.monotonic_s()
        floor = await read_floor(self._store, self._paths)
        at = max(v, self.state.entry)  # another task may have reopened the view meanwhile
        if floor > at:
            raise ViewLost("the log was trimmed past this view", object=self._paths.log, expected=f"floor <= {at}", observed=floor)
        self._proof_s = max(self._proof_s, now_s)

    def is_ahead(self, number: int) -> bool:
        """Whether an answer about this entry counts once `confirm` has passed."""
        return number > self.state.entry

    def prove(self, v: int, sent_s: float) -> None:
        """Record that a request sent at ``sent_s`` showed the tail to be at ``v``."""
        if self.is_ahead(v + 1):
            self._proof_s = max(self._proof_s, sent_s)

    async def catch_up(self, *, until: int | None = None, expect_many: bool = False) -> None:
        """Fold all entries, or up to ``until``; far behind, or with ``expect_many``, side by side."""
        fetched = _FAR_BEHIND_ENTRIES if expect_many else 0
        looks = 0
        while until is None or self.state.entry < until:
            if self._cache.get(self.state.entry + 1) is None:
                if until is None and looks >= _LOOKS_MAX and self.state.entry >= self._highest:
                    return
                if fetched >= _FAR_BEHIND_ENTRIES:
                    looks += await self._prefetch()
                fetched += 1
            if not await self.step():
                return

    async def _fetch_ahead(self) -> None:
        v = self.state.entry
        count = min(self.rhythm.expected(self._clock.wall_ms()), _AHEAD_BYTES_MAX // self._last_bytes)
        if count > _GUESSED_ENTRIES_MAX:
            await self._prefetch()
        elif count > 1:
            await self._fetch(v, [number for number in range(v + 1, v + 1 + count) if self._cache.get(number) is None])

    async def _prefetch(self) -> bool:
        v = self.state.entry
        ahead = await self._store.list(self._paths.log, after=self._paths.entry(v), max_keys=_PREFETCH_ENTRIES)
        found = {number: info.size_bytes for info in ahead if (number := self._paths.entry_number(info.key)) is not None}
        sizes = {number: found[number] for number in of_the_log(found, after=v)}
        self._highest = max([self._highest, *sizes])
        together = accumulate(sizes.values())
        await self._fetch(v, [number for number, bytes_ in zip(sizes, together, strict=True) if bytes_ <= _AHEAD_BYTES_MAX])
        return len(ahead) < _PREFETCH_ENTRIES

    async def _fetch(self, v: int, numbers: list[int]) -> None:
        reads = (self._store.get(self._paths.entry(number)) for number in numbers)
        answers = await asyncio.gather(*reads, return_exceptions=True)
        await self.confirm(v)
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, StoredObject) and self.is_ahead(number):
                self._cache.put(number, answer.data)
                self._highest = max(self._highest, number)
            elif not isinstance(answer, StoredObject | ObjectMissing | StoreUnavailable):
                raise answer

    def _missing(self, number: int) -> DataDamaged:
        return DataDamaged(
            "an entry that was there is missing",
            object=self._paths.entry(number),
            expected=number,
            observed=f"entry {self._highest}",
        )

    async def _lead_around(self, number: int, damage: DataDamaged) -> None:
        resumption = await find_resumption(self._store, self._paths, number, damage)
        if self.state.entry + 1 != number:
            return
        self.state = resumption.state
        self.skipped = self.skipped or resumption.skipped
        if self.on_jump:
            self.on_jump(self.state)


_FAR_BEHIND_ENTRIES = 3
_PREFETCH_ENTRIES = 64
_LOOKS_MAX = 3
_GUESSED_ENTRIES_MAX = 16
_AHEAD_BYTES_MAX = 16 * MIB
