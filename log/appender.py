"""The one writer of a process to a topic's log: it appends entries, hands over what lost a race, and links what others handed over.

The loop of `Appender` takes one decision at a time (`decide`, a pure function): append the next entry, hand over and follow, or wait. Safety
rests on the fold alone; everything here is about getting there soon and with few requests.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa
import xxhash

from .checkpoints import encode_checkpoint, is_due
from .compose import Composed, compose, still_waits
from .entries import encode_entry
from .errors import PenstockError, StoreUnavailable, UnknownOutcome, ViewLost
from .fold import Folded, State
from .handover import Handed, prepare, read_handed
from .header import Action, Batch, Opening
from .limits import CHECKPOINT_ENTRIES, ENTRY_INLINE_BYTES_MAX, ENTRY_LINKS_MAX, MIB, VALIDITY_ENTRIES
from .paths import TopicPaths
from .pending import Outcome, Pending, after_fold, after_jump, at_deadline, before_any, is_expired
from .runtime import Runtime
from .stores.protocol import Conflict, ObjectMissing, ObjectStore, Put
from .tail import Tail

ALONE_INLINE_TIMES = 8
"""Where nobody else appends, an entry may hold so much more: one request instead of two, and who reads it wants its rows."""
LIST_TAILS = 16
LOST_RACES_MAX = 1
"""A process that loses so many races for one entry goes on to combine."""
LIST_WHOLE_WINDOW_EVERY = 16
LIST_UNASKED_EVERY = 64
"""A process that never loses a race lists once in this many of its entries, so that nobody who hands over starves."""
PASSED_OVER_MAX = 2
BUSY_BATCHES = 4
"""A process whose entry combined so many will most likely go on for a second."""
_PUT_LARGE_BYTES = 8 * MIB
_NEVER_S = float("-inf")
_LISTING_MS = 100
"""A hand-over is not passed over by an entry that was composed so soon after it: its writer may have listed before."""
_KNOWN_MAX = 8 * ENTRY_LINKS_MAX * LIST_TAILS


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient an appender is; seconds."""

    combine_s: float = 0.045
    """Between an entry and the next look for what others handed over."""
    linger_s: float = 0.5
    """For how long a process that combines goes on looking after it last found something."""
    contended_s: float = 3.0
    """For how long after another process's entry, or a lost race, it looks before it appends."""
    looked_s: float = 0.1
    """What was seen of the tail so long ago is believed when it comes to appending,"""
    trusted_s: float = 1.0
    """and so long ago when it comes to handing over, as a hand-over may come some entries late."""
    follow_first_s: float = 0.06
    follow_s: float = 0.03
    follow_max_s: float = 0.15
    """Until the first look for the next entry after handing over, and between further looks, which go by the rhythm of entries."""
    step_in_s: float = 0.3
    step_in_spread_s: float = 0.6
    """Without an entry for so long (plus a share of the spread, by rank) a follower appends itself; less than ``linger_s``."""
    retry_s: float = 0.05
    """After a request whose outcome is unknown, doubled up to a second."""


class Role(Enum):
    """What to do with what is pending."""

    APPEND = "append"
    LOOK = "look"
    FOLLOW = "follow"


def decide(*, leading: bool, contended: bool, served: bool, looked: bool, passed_over: int) -> Role:
    """The next step of an appender that has something pending.

    ``leading``: the log's last entry is ours. ``contended``: others append too. ``served``: somebody combines, and will bring what is or
    was handed over. ``looked``: the view is fresh. ``passed_over``: entries since our oldest hand-over that did not bring it.
    """
    if leading or not contended:
        return Role.APPEND
    if served and passed_over < PASSED_OVER_MAX:
        return Role.FOLLOW
    return Role.APPEND if looked else Role.LOOK


def rank(process: str, entry: int) -> float:
    """Where in the line of takers of an entry a process stands, from 0 to 1."""
    return xxhash.xxh64_intdigest(f"{process}/{entry}".encode()) / 2**64


class Appender:
    """Appends for all producers of one process and topic."""

    def __init__(
        self,
        store: ObjectStore,
        paths: TopicPaths,
        runtime: Runtime,
        tail: Tail,
        *,
        pace: Pace | None = None,
    ) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._clock = runtime.clock
        self._tail = tail
        self._pace = pace or Pace()
        self._process = runtime.new_id()
        self._pending: list[Pending] = []
        self._waiting: OrderedDict[str, Handed] = OrderedDict()
        """What others handed over and no entry has brought, as far as the last LIST told; oldest first."""
        self._known: dict[str, Handed | None] = {}
        self._leading = False
        self._own_in_a_row = 0
        self._lost_in_a_row = 0
        self._combines_until_s = _NEVER_S
        self._contended_until_s = _NEVER_S
        self._combiner_s = _NEVER_S
        """When the last entry was appended, if it is of another process that combines."""
        self._combiner_is_busy = False
        self._looked_s = _NEVER_S
        self._listed_s = _NEVER_S
        self._moved_s = self._clock.monotonic_s()
        self._look: asyncio.Task[None] | None = None
        self._write_ids: OrderedDict[int, str] = OrderedDict()
        self._own_ids: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._checkpoints: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._closing = False
        tail.fold_listeners.append(self._on_fold)
        tail.jump_listeners.append(self._on_jump)

    # --- What producers and maintenance ask for ---------------------------------------------------------------------------------

    async def append_batch(self, batch: Batch, rows: pa.Table | None, *, size_bytes: int, deadline_s: float) -> Outcome:
        """Append one batch; ``rows`` sorted by queue, or None when its parts are staged. The caller sends a producer's batches one by one."""
        return await self._append(batch=batch, rows=rows, size_bytes=size_bytes, deadline_s=deadline_s)

    async def append_opening(self, opening: Opening, *, deadline_s: float) -> Outcome:
        """Append a named producer's opening."""
        return await self._append(opening=opening, deadline_s=deadline_s)

    async def append_actions(self, actions: Iterable[Action], *, deadline_s: float) -> Outcome:
        """Append actions in an entry of this process; they are never handed over."""
        return await self._append(actions=tuple(actions), deadline_s=deadline_s)

    def expect(self) -> None:
        """Something will be appended in a moment: look meanwhile what others have appended, where others do."""
        if not self._leading and self._contended and not self._looked:
            self._start_look()

    async def _append(
        self,
        *,
        deadline_s: float,
        batch: Batch | None = None,
        opening: Opening | None = None,
        actions: tuple[Action, ...] = (),
        rows: pa.Table | None = None,
        size_bytes: int = 0,
    ) -> Outcome:
        loop = asyncio.get_running_loop()
        pending = Pending(deadline_s, loop.create_future(), batch, opening, actions, rows, size_bytes)
        pending.valid_from(self._tail.state.entry)
        if (refusal := before_any(pending, self._tail.state)) is not None:
            return refusal
        self._pending.append(pending)
        timer = loop.call_later(max(0.0, deadline_s - self._clock.monotonic_s()), self._time_out, pending)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        try:
            return await asyncio.shield(pending.future)
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Stop; what is still pending ends by what is known of it."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, *self._checkpoints, return_exceptions=True)
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)
        for pending in self._pending:
            pending.settle(at_deadline(pending, self._tail.state))
        self._tail.fold_listeners.remove(self._on_fold)
        self._tail.jump_listeners.remove(self._on_jump)

    # --- The loop ---------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._closing:
            self._pending = [pending for pending in self._pending if not pending.done]
            if not self._pending and not self._lingers():
                return
            try:
                await self._turn()
            except (ViewLost, StoreUnavailable) as error:
                await self._recover(error)
            except PenstockError as error:
                self._fail_all(error)

    def _lingers(self) -> bool:
        """Whether this process goes on linking for others though it has nothing to append itself."""
        return self._in_charge

    async def _turn(self) -> None:
        if self._tail.view.is_aged:  # on such a view an append would end as unknown if the log has been trimmed past it
            await self._catch_up()
            return
        role = decide(
            leading=self._leading or self._in_charge,
            contended=self._contended,
            served=self._served(),
            looked=self._looked,
            passed_over=max((pending.passed_over for pending in self._pending), default=0),
        )
        if any(pending.actions for pending in self._pending):
            role = Role.APPEND
        match role:
            case Role.LOOK:
                await self._catch_up()
            case Role.FOLLOW:
                unhanded = [pending for pending in self._pending if pending.handed_tail is None]
                await asyncio.gather(self._hand_over(unhanded), self._follow())
            case Role.APPEND:
                await self._append_entry()

    @property
    def _contended(self) -> bool:
        return self._clock.monotonic_s() < self._contended_until_s

    @property
    def _combines(self) -> bool:
        return self._clock.monotonic_s() < self._combines_until_s

    @property
    def _in_charge(self) -> bool:
        """Whether this process combines, and no other does: the last to begin is the one."""
        return self._combines and self._combiner_s == _NEVER_S

    @property
    def _looked(self) -> bool:
        return self._clock.monotonic_s() - self._looked_s < self._pace.looked_s

    def _served(self) -> bool:
        """Whether a process that combined as far as we know will bring what is pending."""
        now_s, pace = self._clock.monotonic_s(), self._pace
        if now_s - self._looked_s > (pace.trusted_s if self._combiner_is_busy else pace.looked_s):
            return False
        if self._looked_s - self._combiner_s < pace.step_in_s:
            return True
        handed_s = [pending.handed_s for pending in self._pending if pending.handed_tail is not None]
        in_time = bool(handed_s) and min(handed_s) < self._combiner_s + pace.linger_s
        spread_s = pace.step_in_spread_s if self._combiner_is_busy else pace.step_in_s / 2
        patience_s = pace.step_in_s + spread_s * rank(self._process, self._tail.state.entry)
        return in_time and now_s < self._combiner_s + patience_s

    async def _catch_up(self) -> None:
        await asyncio.shield(self._start_look())

    def _start_look(self) -> asyncio.Task[None]:
        if self._look is None or self._look.done():
            self._look = asyncio.ensure_future(self._look_once())
            self._look.add_done_callback(lambda look: look.cancelled() or look.exception())  # nobody may be waiting for it
        return self._look

    async def _look_once(self) -> None:
        await self._tail.catch_up()
        self._looked_s = self._clock.monotonic_s()

    # --- Appending --------------------------------------------------------------------------------------------------------------

    async def _append_entry(self) -> None:
        limit = ENTRY_INLINE_BYTES_MAX * (1 if self._contended else ALONE_INLINE_TIMES)
        await self._hand_over([p for p in self._pending if p.rows is not None and p.size_bytes > limit])
        now_s = self._clock.monotonic_s()
        if self._lost_in_a_row >= LOST_RACES_MAX or now_s - self._combiner_s < self._pace.contended_s:
            self._combines_until_s, self._combiner_s = now_s + self._pace.linger_s, _NEVER_S
        if collected := self._combines and (self._leading or not self._pending):
            await asyncio.sleep(max(self._moved_s, self._listed_s) + self._pace.combine_s - now_s)
            await self._list()
        self._end_overdue()
        number = self._tail.state.entry + 1
        composed = compose(
            self._tail.state,
            self._pending,
            self._waiting,
            write_id=self._runtime.new_id(),
            now_ms=self._now_ms(),
            combines=self._combines,
        )
        for key in composed.useless:
            del self._waiting[key]
            self._known[key] = None
        if composed.empty:
            if self._pending:
                self._leading = False
                await self._follow()
            return
        data = await self._runtime.offload(lambda: encode_entry(composed.header, composed.inline))
        if self._tail.state.entry >= number:
            return
        beside = self._combines or self._own_in_a_row % LIST_UNASKED_EVERY == LIST_UNASKED_EVERY - 1
        listing = asyncio.ensure_future(self._list()) if beside and not collected else None
        try:
            won = await self._write(number, data, composed)
        finally:
            if listing is not None:
                await asyncio.gather(listing, return_exceptions=True)
        self._leading = won
        self._own_in_a_row = self._own_in_a_row + 1 if won else 0
        self._lost_in_a_row = 0 if won else self._lost_in_a_row + 1
        if not won:
            self._contended_until_s = self._clock.monotonic_s() + self._pace.contended_s

    async def _write(self, number: int, data: bytes, composed: Composed) -> bool:
        """Make ``data`` entry ``number``, or learn whose stands there. True: ours. Raises `ViewLost` when neither can be known."""
        view = self._tail.view
        key = self._paths.entry(number)
        write_id = composed.header.write_id
        self._own_ids.add(write_id)
        exposed_before = [(pending, pending.exposed_until) for pending in composed.put_in]
        for pending in composed.put_in:
            pending.write_ids.add(write_id)
            pending.exposed_until = max(pending.exposed_until, number)
        delay_s = self._pace.retry_s
        first = True
        while True:
            sent_s = self._clock.monotonic_s()
            try:
                await self._store.put(key, data, mode=Put.CREATE)
            except Conflict:
                pass  # refused, or refused after our own success: only what stands there tells
            except StoreUnavailable:
                await asyncio.sleep(delay_s)
            except PenstockError:
                if first:  # the store refused the only request there was: nothing can land later
                    for pending, exposed_until in exposed_before:
                        pending.exposed_until = exposed_until
                raise
            else:
                await view.confirm(number - 1)
                view.prove(sent_s)
                await view.take(number, data)
                return self._write_ids.get(number) == write_id
            first = False
            found = await self._read_back(key)
            await view.confirm(number - 1)
            if found is not None:
                await view.take(number, found)
            if self._tail.state.entry >= number:
                return self._write_ids.get(number) == write_id
            if all(pending.done for pending in self._pending) and not self._waiting:
                return False
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, 1.0)

    async def _read_back(self, key: str) -> bytes | None:
        delay_s = self._pace.retry_s
        while True:
            try:
                return (await self._store.get(key)).data
            except ObjectMissing:
                return None
            except StoreUnavailable:
                if all(pending.done for pending in self._pending):
                    raise
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, 1.0)

    # --- Handing over and following ---------------------------------------------------------------------------------------------

    async def _hand_over(self, chosen: list[Pending]) -> None:
        """Put these where any appender finds them, this one too."""
        self._end_overdue()
        tail = self._tail.state.entry
        fresh: list[Pending] = []
        for pending in chosen:
            if pending.done or pending.actions or pending.handed_tail is not None:
                continue
            if pending.exposed_until <= tail:
                pending.valid_from(tail)
            if pending.valid_until == tail + VALIDITY_ENTRIES:
                fresh.append(pending)
        if not fresh:
            return
        over = prepare(
            self._paths,
            tail=tail,
            write_id=self._runtime.new_id(),
            openings=[p.opening for p in fresh if p.opening],
            batches=[(p.batch, p.rows if not p.batch.parts else None) for p in fresh if p.batch],
        )
        for pending in fresh:
            pending.exposed_until = pending.valid_until
        if len(over.data) > _PUT_LARGE_BYTES:
            await self._store.put_large(over.handed.key, over.data)
        else:
            await self._store.put(over.handed.key, over.data, mode=Put.REPLACE)
        placed = iter(over.handed.batches)
        for pending in fresh:
            batch = next(placed) if pending.batch else None
            if pending.valid_until != tail + VALIDITY_ENTRIES:
                continue  # it took so long that it has been formed anew meanwhile
            pending.handed_tail = tail
            pending.handed_ms = self._now_ms()
            pending.handed_s = self._clock.monotonic_s()
            pending.batch = batch

    async def _follow(self) -> None:
        """Look for the entry that brings what was handed over, until there is more to hand over or hope ends."""
        await self._pause(self._pace.follow_first_s)
        while any(not pending.done for pending in self._pending):
            await self._catch_up()
            if any(pending.handed_tail is None or pending.passed_over for pending in self._pending) or not self._served():
                return
            await self._pause(min(max(self._pace.follow_s, self._tail.next_s()), self._pace.follow_max_s))

    async def _list(self) -> None:
        """Learn what is handed over and waits; whoever finds nothing stops listing."""
        tail = self._tail.state.entry
        tails = VALIDITY_ENTRIES if tail % LIST_WHOLE_WINDOW_EVERY == 0 else LIST_TAILS
        try:
            listed = await self._store.list(self._paths.handed, after=self._paths.handed_under(max(0, tail - tails)).rstrip("/"))
            for info in listed:
                if info.key not in self._known:
                    self._known[info.key] = await read_handed(self._store, self._paths, info)
        except StoreUnavailable:
            return
        for info in listed:
            handed = self._known[info.key]
            if handed is not None and still_waits(handed, self._tail.state):
                self._waiting[handed.key] = handed
            else:
                self._known[info.key] = None
        self._waiting = OrderedDict(sorted(self._waiting.items()))
        self._listed_s = self._clock.monotonic_s()
        if len(self._known) > _KNOWN_MAX:
            self._known = {key: self._waiting.get(key) for key in (info.key for info in listed)}
        if self._waiting:
            self._combines_until_s = self._listed_s + self._pace.linger_s

    # --- What the tail tells ----------------------------------------------------------------------------------------------------

    def _on_fold(self, folded: Folded, _: bytes) -> None:
        self._moved_s = self._clock.monotonic_s()
        self._write_ids[folded.number] = folded.header.write_id
        while len(self._write_ids) > 2 * VALIDITY_ENTRIES:
            self._write_ids.popitem(last=False)
        age_s = max(0, self._now_ms() - folded.header.append_time_ms) / 1000
        if folded.header.write_id in self._own_ids:
            self._own_ids.discard(folded.header.write_id)
            self._write_checkpoint(folded.state)
            self._combiner_s = _NEVER_S
        else:
            if folded.header.combines:
                self._combiner_s, self._combines_until_s = self._moved_s - age_s, _NEVER_S
                self._combiner_is_busy = len(folded.header.batches) >= BUSY_BATCHES
            self._looked_s = max(self._looked_s, self._moved_s - age_s)
            self._contended_until_s = max(self._contended_until_s, self._moved_s - age_s + self._pace.contended_s)
            self._leading = False
        for pending in self._pending:
            outcome = after_fold(pending, folded)
            if outcome is not None:
                pending.settle(outcome)
            elif pending.handed_tail is not None and folded.header.append_time_ms > pending.handed_ms + _LISTING_MS:
                pending.passed_over += 1
        for key, handed in list(self._waiting.items()):
            if not still_waits(handed, folded.state):
                del self._waiting[key]
                self._known[key] = None
        self._renew_expired(folded.state)

    def _on_jump(self, state: State) -> None:
        self._leading = False
        self._waiting.clear()
        for pending in self._pending:
            outcome = after_jump(pending, state)
            if outcome is not None:
                pending.settle(outcome)
        self._renew_expired(state)

    def _renew_expired(self, state: State) -> None:
        for pending in self._pending:
            if not pending.done and is_expired(pending, state):
                if pending.batch and pending.rows is not None:
                    pending.batch = replace(pending.batch, parts=())
                pending.valid_from(state.entry)

    def _end_overdue(self) -> None:
        """Nothing leaves this process after its deadline, however the timer sleeps: staged rows it links may be gone by then."""
        for pending in self._pending:
            if self._clock.monotonic_s() >= pending.deadline_s:
                self._time_out(pending)

    def _time_out(self, pending: Pending) -> None:
        pending.settle(at_deadline(pending, self._tail.state))
        self._news.set()

    def _fail_all(self, error: PenstockError) -> None:
        """A fault that waiting will not mend ends what is pending: with the fault itself where nothing can have been written."""
        for pending in self._pending:
            if self._tail.state.entry >= pending.exposed_until:
                pending.settle(error)
            else:
                unknown = UnknownOutcome("the send may be in the log, and the store refuses to tell", observed=str(error))
                unknown.__cause__ = error
                pending.settle(unknown)

    async def write_missing_checkpoint(self) -> None:
        """Write the newest due checkpoint that this process passed, unless it is there."""
        state = self._tail.due_checkpoint
        if state is not None and not self._tail.view.skipped:
            await put_checkpoint(self._store, self._paths, state.entry, encode_checkpoint(state))

    def _write_checkpoint(self, state: State) -> None:
        """The writer of a due entry writes its checkpoint, beside everything else; any process can do it later."""
        if state.entry % CHECKPOINT_ENTRIES or self._tail.view.skipped:
            return
        data = encode_checkpoint(state)
        if not is_due(state.entry, len(data)):
            return
        task = asyncio.ensure_future(put_checkpoint(self._store, self._paths, state.entry, data))
        self._checkpoints.add(task)
        task.add_done_callback(self._checkpoints.discard)

    async def _recover(self, error: PenstockError) -> None:
        if isinstance(error, ViewLost):
            try:
                await self._tail.reopen()
                return
            except StoreUnavailable:
                pass
        await asyncio.sleep(self._pace.retry_s)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until something new is pending or known."""
        if seconds <= 0:
            return
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return

    def _now_ms(self) -> int:
        return self._clock.wall_ms()


async def put_checkpoint(store: ObjectStore, paths: TopicPaths, entry: int, data: bytes) -> None:
    """Write a checkpoint unless it is there; a failure is no harm, as any process can write it again."""
    try:
        await store.put(paths.checkpoint(entry), data, mode=Put.CREATE)
    except (Conflict, StoreUnavailable):
        return
