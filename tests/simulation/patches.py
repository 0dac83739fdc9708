"""Ways to remove a guard of the protocol for a while, from the tests' side: `mutants` says which guard is which."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from penstock.log.append import in_flight
from penstock.log.append.appender import Appender
from penstock.log.append.in_flight import InFlightAppends, PendingAppend
from penstock.log.errors import NotWritten, PenstockError, StoreUnavailable, UnknownOutcome, ViewLost
from penstock.log.format import idempotence
from penstock.log.format.fold import FoldedEntry, Judge
from penstock.log.format.idempotence import IdempotentRow
from penstock.log.format.state import TopicState
from penstock.log.produce.accumulator import BatchBuilder
from penstock.log.produce.producer import Producer
from penstock.log.stores.protocol import Put
from penstock.log.table.collector import Collector
from penstock.log.table.trimmer import LogFloor, Trimmer
from penstock.log.tail.view import View
from tests.simulation.store import SimClient

Patch = Callable[[], AbstractContextManager[None]]


def both(*patches: Patch) -> Patch:
    """Several patches that together remove one guard."""

    @contextmanager
    def patch() -> Iterator[None]:
        with ExitStack() as stack:
            for one in patches:
                stack.enter_context(one())
            yield

    return patch


def everywhere(original: Any, replacement: Any) -> Patch:
    """Replace a function in every module of the project that knows it."""

    @contextmanager
    def patch() -> Iterator[None]:
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("penstock.")]
        places = [(module, name) for module in modules for name, value in list(vars(module).items()) if value is original]
        assert places, f"{original} is nowhere"
        for module, name in places:
            setattr(module, name, replacement)
        try:
            yield
        finally:
            for module, name in places:
                setattr(module, name, original)

    return patch


def attribute(owner: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    """Replace one method (or number) by what ``make`` makes of it."""

    @contextmanager
    def patch() -> Iterator[None]:
        original = vars(owner)[name]
        setattr(owner, name, make(original))
        try:
            yield
        finally:
            setattr(owner, name, original)

    return patch


def always(value: object) -> Callable[..., Any]:
    return lambda *_, **__: value


# ------------------------------------------------------------------------------------------------- mutants of some length


def unnumbered_growth(original: Any) -> Any:
    def grow(self: Judge, queues: int) -> None:
        generation = self._generation
        original(self, queues)
        self._generation = generation

    return grow


def leaves_by_entries(row: IdempotentRow, entry: int, time_ms: int, rows: int) -> bool:
    """As an unnamed producer's."""
    return row.entry < entry - int(vars(idempotence)["IDEMPOTENT_ROW_ENTRIES"])  # it may be small


def unlooked(original: Any) -> Any:
    def folded(self: InFlightAppends, entry: FoldedEntry) -> None:
        """Judges by the state after each entry."""
        original(self, entry)
        self.looked(self.open, entry.state)

    return folded


def overlapping(_: Any) -> Any:
    async def append_all(self: Any) -> None:
        """Appends each batch without waiting for the one before."""
        tasks: list[asyncio.Task[None]] = []
        previous: dict[int, int] = {}
        form, last = self._former.form, self._accepted

        async def formed(builder: BatchBuilder) -> Any:
            found = await form(builder)
            self._accepted = previous[builder.first_number]  # read next: the batch follows the one that was taken before it
            return found

        async def one(builder: BatchBuilder) -> None:
            try:
                outcome: Any = await self._append(builder)
            except PenstockError as error:
                outcome = error
            self._accumulator.release(builder)
            self._room.set()
            builder.settle(outcome)
            if isinstance(outcome, PenstockError):
                self._accumulator.fail(outcome)

        self._former.form = formed
        while (builder := await self._next()) is not None:
            previous[builder.first_number] = last
            last = last + builder.count if builder.last_sequence is None else builder.last_sequence
            tasks.append(asyncio.ensure_future(one(builder)))
        await asyncio.gather(*tasks)
        self._accepted = last

    return append_all


def overtaking(_: Any) -> Any:
    async def append_all(self: Any) -> None:
        """Goes on with what is queued behind a batch that failed."""
        while (builder := await self._next()) is not None:
            try:
                outcome: Any = await self._append(builder)
            except PenstockError as error:
                outcome = error
            self._accumulator.release(builder)
            self._room.set()
            builder.settle(outcome)

    return append_all


def own_by_place(original: Any) -> Any:
    """Takes whatever stands under the key for its own."""

    async def write(self: Appender, number: int, data: bytes, composed: Any) -> bool:
        won: bool = await original(self, number, data, composed)
        if not won:
            for one in composed.put_in:
                if one.batch is not None and self._tail.state.entry == number:
                    offsets = {queue: composed.header.bases[queue] for queue in one.batch.rows}
                    one.settle(in_flight.AppendResult(number, self._tail.state.store_time_ms, offsets))
        return won

    return write


def replacing(original: Any) -> Any:
    async def put(self: SimClient, key: str, data: Any, *, mode: Any) -> Any:
        return await original(self, key, data, mode=Put.REPLACE if "/log/0" in key else mode)

    return put


def unasked(original: Any) -> Any:
    """Believes every answer about the tail, however late."""

    async def confirm(self: View, v: int) -> None:
        return None

    return confirm


def believed_when(inside: str) -> Callable[[Any], Any]:
    """Believes late answers to one kind of request only."""

    def make(original: Any) -> Any:
        async def confirm(self: View, v: int) -> None:
            callers = (sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name)
            if inside not in callers:
                await original(self, v)

        return confirm

    return make


def jump_is_no_proof(original: Any) -> Any:
    def after_jump(one: PendingAppend, state: TopicState) -> Any:
        found = original(one, state)
        return NotWritten("passed over") if isinstance(found, UnknownOutcome) else found

    return after_jump


def never_unknown(original: Any) -> Any:
    return lambda *_: NotWritten("time is over")


def delete_first(original: Any) -> Any:
    async def raise_floor(self: Trimmer, floor: Any, number: int) -> bool:
        await self._delete_below(number)
        return bool(await original(self, floor, number))

    return raise_floor


def between_checkpoints(original: Any) -> Any:
    async def candidate(self: Trimmer, floor: int, bound: int, states: Any) -> int | None:
        return bound if bound > floor else None

    return candidate


def old_snapshot(original: Any) -> Any:
    async def list_then_snapshot(self: Collector) -> Any:
        listed = await self._store.list(f"{self._delta.root}queue=")
        held = self._delta.snapshot
        return listed, held if held.exists else await self._delta.refresh()

    return list_then_snapshot


def without_margin(_: Any) -> Any:
    """Takes a hand-over for past as soon as the floor has passed the entry it was formed at."""

    def is_past(self: Collector, key: str, floor: LogFloor) -> bool:
        parts = self._paths.handed_parts(key)
        return parts is not None and parts[0] < floor.number

    return is_past


def name_of_rows(original: Any) -> Any:
    """Names a data file by its rows alone."""
    return lambda queue, first, last, _: original(queue, first, last, "0" * 32)


def asleep(original: Any) -> Any:
    return lambda self: self.boot_s + asyncio.get_running_loop().time()


async def async_true(*_: object) -> bool:
    return True


def tiring(original: Any) -> Any:
    async def run(self: Appender) -> None:
        """Leaves what is pending to whoever sends next, once a turn has failed."""
        try:
            while not self._closing and (self._in_flight or self._race.in_charge(self._now_s())):
                await self._take_step()
        except (StoreUnavailable, ViewLost) as error:
            await self._recover(error)
        except PenstockError as error:
            self._in_flight.fail(error, self._tail.state)

    return run


def asleep_first(original: Any) -> Any:
    async def next_(self: Producer) -> BatchBuilder | None:
        """Waits for news without a look at what has gathered meanwhile."""
        if self._durable[1] and self._accumulator.head() is not None and not self._accumulator.closed:
            self._wakeup.clear()
            await self._wakeup.wait()
        found: BatchBuilder | None = await original(self)
        return found

    return next_
