"""A process's one writer to a topic's log: appends entries, hands over batches that lost a race, and links those of other processes.

Safety rests on the fold alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from ..errors import ClosedError, PenstockError, StoreUnavailable, ViewLost, unforeseen
from ..format.checkpoint import CheckpointWriter
from ..format.entry import encode_entry
from ..format.fold import FoldedEntry
from ..format.handover import prepare
from ..format.header import Action, Batch, Opening
from ..format.state import TopicState
from ..limits import ENTRY_INLINE_BYTES_MAX, MIB, VALIDITY_ENTRIES
from ..message.few_rows import FewRows, InlineRows
from ..paths import TopicPaths
from ..runtime.backoff import Backoff, pause
from ..runtime.runtime import Runtime
from ..runtime.shared_work import shared
from ..stores.protocol import Conflict, ObjectMissing, ObjectStore, Put
from ..tail.tail import Tail
from .compose import ComposedEntry, compose
from .contention import Contention, NextStep, Pace
from .in_flight import InFlightAppends, Outcome, PendingAppend, at_deadline, before_any, expose
from .pending_hand_overs import PendingHandOvers

ALONE_INLINE_TIMES = 8
"""The factor by which an entry may be larger where no other process appends: one request instead of two."""
_PUT_LARGE_BYTES = 8 * MIB


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
        self._race = Contention(runtime.new_id(), self._pace, self._clock.monotonic_s())
        self._handed_over = PendingHandOvers(store, paths)
        self._checkpoints = CheckpointWriter(store, paths)
        self._in_flight = InFlightAppends()
        self._backoff = Backoff(self._pace.retry_s)
        self._look: asyncio.Task[None] | None = None
        self._write_ids: OrderedDict[int, str] = OrderedDict()
        self._own_ids: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        self._closing = False
        tail.fold_listeners.append(self._on_fold)
        tail.jump_listeners.append(self._on_jump)

    async def append_batch(self, batch: Batch, rows: InlineRows | None, *, size_bytes: int, deadline_s: float) -> Outcome:
        """Append one batch; ``rows`` are sorted by queue, None where its parts are staged. A producer's batches come one by one."""
        return await self._append(batch=batch, rows=rows, size_bytes=size_bytes, deadline_s=deadline_s)

    def begin(self, batches: Sequence[PendingAppend]) -> None:
        """Take batches of several producers, for one entry where they fit. Each ends at its deadline at the latest."""
        for pending in batches:
            if (timer := self._begin(pending)) is not None:
                pending.future.add_done_callback(_ending(timer))

    async def append_opening(self, opening: Opening, *, deadline_s: float) -> Outcome:
        return await self._append(opening=opening, deadline_s=deadline_s)

    async def append_actions(self, actions: Iterable[Action], *, deadline_s: float) -> Outcome:
        """Actions are never handed over."""
        return await self._append(actions=tuple(actions), deadline_s=deadline_s)

    def expect(self) -> None:
        now_s = self._now_s()
        if not self._race.leading and self._race.contended(now_s) and not self._race.looked(now_s):
            self._start_look()

    async def _append(
        self,
        *,
        deadline_s: float,
        batch: Batch | None = None,
        opening: Opening | None = None,
        actions: tuple[Action, ...] = (),
        rows: InlineRows | None = None,
        size_bytes: int = 0,
    ) -> Outcome:
        future = asyncio.get_running_loop().create_future()
        pending = PendingAppend(deadline_s, future, batch, opening, actions, rows, size_bytes)
        timer = self._begin(pending)
        if timer is None:
            return pending.future.result()
        try:
            return await asyncio.shield(pending.future)
        finally:
            timer.cancel()

    def _begin(self, pending: PendingAppend) -> asyncio.TimerHandle | None:
        """The timer of its deadline; None: it has ended already."""
        if self._closing:
            pending.settle(
                ClosedError("the topic was closed before the send was tried", operation="append", object=self._paths.topic)
            )
            return None
        pending.valid_from(self._tail.state.entry)
        pending.follow_growth(self._tail.state)
        pending.take_round(self._tail.state)
        if (refusal := before_any(pending, self._tail.state)) is not None:
            pending.settle(refusal)
            return None
        self._in_flight.add(pending)
        timer = asyncio.get_running_loop().call_later(max(0.0, pending.deadline_s - self._now_s()), self._time_out, pending)
        self._wakeup.set()
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        return timer

    async def close(self) -> None:
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._checkpoints.finish()
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)
        self._in_flight.end(self._tail.state)
        self._tail.fold_listeners.remove(self._on_fold)
        self._tail.jump_listeners.remove(self._on_jump)

    async def _run(self) -> None:
        while not self._closing and (self._in_flight or self._race.in_charge(self._now_s())):
            try:
                await self._turn()
            except Exception as error:  # noqa: BLE001 - whatever it is, whoever sent something must hear of it
                fault = error if isinstance(error, PenstockError) else unforeseen(error, operation="append")
                self._in_flight.fail(fault, self._tail.state)
                return

    async def _turn(self) -> None:
        try:
            await self._take_step()
        except (ViewLost, StoreUnavailable) as error:
            await self._recover(error)
        else:
            self._backoff = Backoff(self._pace.retry_s)

    async def _take_step(self) -> None:
        # On an aged view an append would end as unknown if the log has been trimmed past it.
        if self._tail.view.is_aged or self._in_flight.gaps(self._tail.state):
            await self._catch_up()
            return
        pending = self._in_flight.open
        step = self._race.next_step(self._now_s(), self._tail.state.entry, pending)
        if any(one.actions for one in pending):
            step = NextStep.APPEND
        match step:
            case NextStep.LOOK:
                await self._catch_up()
            case NextStep.FOLLOW:
                await self._hand_over_and_follow(pending)
            case NextStep.APPEND:
                await self._append_entry()

    async def _catch_up(self) -> None:
        await asyncio.shield(self._start_look())

    def _start_look(self) -> asyncio.Task[None]:
        if self._look is None or self._look.done():
            self._look = shared(asyncio.ensure_future(self._look_once()))
        return self._look

    async def _look_once(self) -> None:
        waited = self._in_flight.open
        await self._tail.catch_up()
        self._race.looked_s = self._now_s()
        self._in_flight.looked(waited, self._tail.state)

    async def _append_entry(self) -> None:
        race = self._race
        limit = ENTRY_INLINE_BYTES_MAX * (1 if race.contended(self._now_s()) else ALONE_INLINE_TIMES)
        await self._hand_over([p for p in self._in_flight.open if p.size_bytes > limit])
        now_s = self._now_s()
        if self._in_flight:  # a process in charge with nothing of its own to append goes on only while it finds something
            race.begin_append(now_s)
        if collected := race.combines(now_s) and (race.leading or not self._in_flight):
            await asyncio.sleep(max(race.moved_s, race.listed_s) + self._pace.combine_s - now_s)
            await self._list()
        self._end_overdue()
        state = self._tail.state
        # Large batches that came during this wait are handed over by the next turn.
        fit = [p for p in self._in_flight.open if p.size_bytes <= limit or p.exposed_until]
        composed = compose(
            state,
            fit,
            self._handed_over.handed,
            write_id=self._runtime.new_id(),
            now_ms=self._clock.wall_ms(),
            combines=race.combines(self._now_s()),
            inline_bytes_max=limit,
        )
        self._handed_over.drop(composed.useless)
        if composed.empty:
            if fit:
                race.leading = False
                await self._follow()
            return
        size_bytes = sum([one.size_bytes for one in composed.put_in if not isinstance(one.rows, FewRows)])
        data = await self._runtime.offload(lambda: encode_entry(composed.header, composed.inline), size_bytes=size_bytes)
        if self._tail.state.entry > state.entry:
            return
        listing = asyncio.ensure_future(self._list()) if race.lists_beside(self._now_s()) and not collected else None
        try:
            won = await self._write(state.entry + 1, data, composed)
        finally:
            if listing is not None:
                await asyncio.gather(listing, return_exceptions=True)
        if self._tail.state.entry > state.entry:  # it was folded, or another's stands in its place
            self._own_ids.discard(composed.header.write_id)
        race.note_race(self._now_s(), won=won)

    async def _write(self, number: int, data: bytes, composed: ComposedEntry) -> bool:
        """Make ``data`` entry ``number``. False: another entry has the number. Raises `ViewLost` when neither can be known."""
        view = self._tail.view
        key = self._paths.entry(number)
        write_id = composed.header.write_id
        self._own_ids.add(write_id)
        for pending in composed.put_in:
            pending.write_ids.add(write_id)
        take_back = expose(composed.put_in, number)
        backoff = Backoff(self._pace.retry_s)
        first = True
        while True:
            sent_s = self._now_s()
            try:
                await self._store.put(key, data, mode=Put.CREATE)
            except Conflict:
                pass  # refused, or refused after our own success: only the entry that stands there tells
            except StoreUnavailable:
                await asyncio.sleep(backoff.next_s())
            except PenstockError:
                if first:  # nothing can land later
                    take_back()
                raise
            else:
                await view.confirm(number - 1)
                view.prove(number - 1, sent_s)
                await view.take_own(data, composed.folded, before=composed.before)
                return self._write_ids.get(number) == write_id
            first = False
            found = await self._read_back(key)
            await view.confirm(number - 1)
            if found is not None:
                await view.take(number, found)
            if self._tail.state.entry >= number:
                return self._write_ids.get(number) == write_id
            if not self._in_flight and not self._handed_over:
                return False
            await asyncio.sleep(backoff.next_s())

    async def _read_back(self, key: str) -> bytes | None:
        backoff = Backoff(self._pace.retry_s)
        while True:
            try:
                return (await self._store.get(key)).data
            except ObjectMissing:
                return None
            except StoreUnavailable:
                if not self._in_flight:
                    raise
                await asyncio.sleep(backoff.next_s())

    # --- Handing over and following ---------------------------------------------------------------------------------------------

    async def _hand_over_and_follow(self, chosen: list[PendingAppend]) -> None:
        following = asyncio.ensure_future(self._follow())
        try:
            await self._hand_over(chosen)
            await following
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _hand_over(self, chosen: list[PendingAppend]) -> None:
        self._end_overdue()
        tail = self._tail.state.entry
        fresh: list[PendingAppend] = []
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
        take_back = expose(fresh, tail + VALIDITY_ENTRIES)
        try:
            if len(over.data) > _PUT_LARGE_BYTES:
                await self._store.put_large(over.handed.key, over.data)
            else:
                await self._store.put(over.handed.key, over.data, mode=Put.REPLACE)
        except StoreUnavailable:
            raise
        except PenstockError:  # there is nothing that anybody could link
            take_back()
            raise
        placed = iter(over.handed.batches)
        for pending in fresh:
            batch = next(placed) if pending.batch else None
            if pending.valid_until != tail + VALIDITY_ENTRIES:
                continue  # the request took so long that the batch was formed anew meanwhile
            pending.handed_tail = tail
            pending.handed_ms = self._clock.wall_ms()
            pending.handed_s = self._now_s()
            pending.batch = batch

    async def _follow(self) -> None:
        """Wait for the entry that brings the hand-overs, until there is more to hand over or no hope is left."""
        await self._pause(self._pace.follow_first_s)
        while self._in_flight:
            await self._catch_up()
            pending = self._in_flight.open
            if any(one.handed_tail is None or one.passed_over for one in pending):
                return
            if not self._race.served(self._now_s(), self._tail.state.entry, pending):
                return
            await self._pause(min(max(self._pace.follow_s, self._tail.next_s()), self._pace.follow_max_s))

    async def _list(self) -> None:
        found = False
        try:
            if await self._handed_over.list(self._tail.state.entry):
                self._handed_over.review(self._tail.state)
                found = bool(self._handed_over)
        finally:  # a failed one is followed by a pause too
            self._race.note_listed(self._now_s(), found=found)

    # --- What the tail tells ----------------------------------------------------------------------------------------------------

    def _on_fold(self, folded: FoldedEntry, _: bytes) -> None:
        self._write_ids[folded.number] = folded.header.write_id
        while len(self._write_ids) > 2 * VALIDITY_ENTRIES:
            self._write_ids.popitem(last=False)
        if folded.header.write_id in self._own_ids:
            self._own_ids.discard(folded.header.write_id)
            self._race.note_own(self._now_s())
            if not self._tail.view.skipped:
                self._checkpoints.write_if_due(folded.state)
        else:
            age_s = max(0, self._clock.wall_ms() - folded.header.append_time_ms) / 1000
            self._race.note_foreign(self._now_s(), age_s, folded.header)
        self._in_flight.folded(folded)
        self._handed_over.review(folded.state)

    def _on_jump(self, state: TopicState) -> None:
        self._race.leading = False
        self._handed_over.clear()
        self._own_ids.clear()  # the entries that have these ids were passed over
        self._in_flight.jumped(state)

    def _end_overdue(self) -> None:
        self._in_flight.end_overdue(self._now_s(), self._tail.state)

    def _time_out(self, pending: PendingAppend) -> None:
        pending.settle(at_deadline(pending, self._tail.state))
        self._wakeup.set()

    async def write_missing_checkpoint(self) -> None:
        if self._tail.due_checkpoint is not None and not self._tail.view.skipped:
            await self._checkpoints.write(self._tail.due_checkpoint)

    async def _recover(self, error: PenstockError) -> None:
        if isinstance(error, ViewLost):
            with suppress(StoreUnavailable):
                await self._tail.reopen()
                return
        await asyncio.sleep(self._backoff.next_s())

    async def _pause(self, seconds: float) -> None:
        self._wakeup.clear()
        await pause(self._wakeup, seconds)

    def _now_s(self) -> float:
        return self._clock.monotonic_s()


def _ending(timer: asyncio.TimerHandle) -> Callable[[object], None]:
    return lambda _: timer.cancel()
