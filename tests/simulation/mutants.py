"""The protocol with one guard removed, by replacing one function from the tests' side.

Every mutant passes runs without faults and is caught by the simulation: so the guard is needed, and the simulation would notice if it
broke. ``seeds`` are known to catch it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.log import fold, pending, waiting
from penstock.log.appender import Appender
from penstock.log.errors import NotWritten, PenstockError, UnknownOutcome
from penstock.log.fold import Judge
from penstock.log.gathering import Gathering
from penstock.log.pending import Pending
from penstock.log.producer import Producer
from penstock.log.state import State
from penstock.log.stores.protocol import Put
from penstock.log.table.collector import Collector
from penstock.log.table.publisher import Publisher
from penstock.log.table.trimmer import Trimmer
from penstock.log.view import View
from tests.simulation.process import SimClock
from tests.simulation.store import SimClient

Patch = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One guard less."""

    guard: str
    """What it lacks."""
    patch: Patch
    scenario: str
    seeds: tuple[int, ...] = ()
    """Of the scenario, that catch it."""


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
    """Replace a function in every module of the log that knows it."""

    @contextmanager
    def patch() -> Iterator[None]:
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("penstock.log")]
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


def _overlapping(_: Any) -> Any:
    async def append_all(self: Any) -> None:
        """Appends each batch without waiting for the one before."""
        tasks: list[asyncio.Task[None]] = []
        previous: dict[int, int] = {}
        built, last = self._built, self._accepted

        def build(gathering: Gathering) -> Any:
            self._accepted = previous[gathering.first_number]
            return built(gathering)

        async def one(gathering: Gathering) -> None:
            try:
                outcome: Any = await self._append(gathering)
            except PenstockError as error:
                outcome = error
            self._buffer.release(gathering)
            gathering.settle(outcome)
            if isinstance(outcome, PenstockError):
                self._buffer.fail(outcome)

        self._built = build
        while (gathering := await self._next()) is not None:
            previous[gathering.first_number] = last
            last = last + gathering.count if gathering.last_sequence is None else gathering.last_sequence
            tasks.append(asyncio.ensure_future(one(gathering)))
        await asyncio.gather(*tasks)
        self._accepted = last

    return append_all


def _overtaking(_: Any) -> Any:
    async def append_all(self: Any) -> None:
        """Goes on with what is queued behind a batch that failed."""
        while (gathering := await self._next()) is not None:
            try:
                outcome: Any = await self._append(gathering)
            except PenstockError as error:
                outcome = error
            self._buffer.release(gathering)
            gathering.settle(outcome)

    return append_all


def _own_by_place(original: Any) -> Any:
    """Takes whatever stands under the key for its own."""

    async def write(self: Appender, number: int, data: bytes, composed: Any) -> bool:
        won: bool = await original(self, number, data, composed)
        if not won:
            for one in composed.put_in:
                if one.batch is not None and self._tail.state.entry == number:
                    offsets = {queue: composed.header.bases[queue] for queue in one.batch.rows}
                    one.settle(pending.Written(number, self._tail.state.store_time_ms, offsets))
        return won

    return write


def _replacing(original: Any) -> Any:
    async def put(self: SimClient, key: str, data: Any, *, mode: Any) -> Any:
        return await original(self, key, data, mode=Put.REPLACE if "/log/0" in key else mode)

    return put


def _unasked(original: Any) -> Any:
    """Believes every answer about the tail, however late."""

    async def confirm(self: View, v: int) -> None:
        return None

    return confirm


def _believed_when(inside: str) -> Callable[[Any], Any]:
    """Believes late answers to one kind of request only."""

    def make(original: Any) -> Any:
        async def confirm(self: View, v: int) -> None:
            callers = (sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name)
            if inside not in callers:
                await original(self, v)

        return confirm

    return make


def _jump_is_no_proof(original: Any) -> Any:
    def after_jump(one: Pending, state: State) -> Any:
        found = original(one, state)
        return NotWritten("passed over") if isinstance(found, UnknownOutcome) else found

    return after_jump


def _never_unknown(original: Any) -> Any:
    return lambda *_: NotWritten("time is over")


def _delete_first(original: Any) -> Any:
    async def raise_floor(self: Trimmer, floor: Any, number: int) -> bool:
        await self._delete_below(number)
        return bool(await original(self, floor, number))

    return raise_floor


def _between_checkpoints(original: Any) -> Any:
    async def candidate(self: Trimmer, floor: int, bound: int, states: Any) -> int | None:
        return bound if bound > floor else None

    return candidate


def _old_snapshot(original: Any) -> Any:
    async def list_then_snapshot(self: Collector) -> Any:
        listed = await self._store.list(f"{self._delta.root}queue=")
        held = self._delta.snapshot
        return listed, held if held.exists else await self._delta.refresh()

    return list_then_snapshot


def _asleep(original: Any) -> Any:
    return lambda self: self.boot_s + asyncio.get_running_loop().time()


MUTANTS: dict[str, Mutant] = {
    "create-if-absent": Mutant(
        guard="an entry is put only where there is none",
        patch=attribute(SimClient, "put", _replacing),
        scenario="crowd",
        seeds=(0,),
    ),
    "write-id": Mutant(
        guard="what stands under the key is ours only by its write id",
        patch=attribute(Appender, "_write", _own_by_place),
        scenario="crowd",
        seeds=(0,),
    ),
    "opening-id": Mutant(
        guard="an opener knows its opening by the write id",
        patch=everywhere(pending.is_own, lambda accepted, own: accepted.producer == own.producer),
        scenario="names",
        seeds=(16,),
    ),
    "previous": Mutant(
        guard="a batch follows the producer's last one", patch=everywhere(fold.follows, always(True)), scenario="crowd", seeds=(0,)
    ),
    "epoch": Mutant(
        guard="a batch is of the name's current epoch",
        patch=everywhere(fold.is_of_epoch, always(True)),
        scenario="names",
        seeds=(1,),
    ),
    "validity": Mutant(
        guard="a batch is brought within its validity",
        patch=both(
            everywhere(fold.is_expired, always(False)),
            attribute(waiting, "VALIDITY_ENTRIES", always(10_000)),
            attribute(waiting, "LIST_TAILS", always(10_000)),
        ),
        scenario="crowd",
        seeds=(0,),
    ),
    "generation": Mutant(
        guard="a batch is of this life of the topic",
        patch=everywhere(fold.is_of_generation, always(True)),
        scenario="relives",
        seeds=(0,),
    ),
    "one-outstanding": Mutant(
        guard="a producer has one batch on its way",
        patch=attribute(Producer, "_append_all", _overlapping),
        scenario="hasty",
        seeds=(7,),
    ),
    "nothing-overtakes": Mutant(
        guard="what is queued behind a failed batch fails too",
        patch=attribute(Producer, "_append_all", _overtaking),
        scenario="hasty",
        seeds=(7,),
    ),
    "row-kept": Mutant(
        guard="an unnamed producer's row outlives its batches' validity",
        patch=attribute(fold, "UNNAMED_ROW_ENTRIES", always(1)),
        scenario="crowd",
        seeds=(1,),
    ),
    "row-of-epoch": Mutant(
        guard="only a row of the same epoch proves anything",
        patch=everywhere(pending.proves, always(True)),
        scenario="trims",
        seeds=(14,),
    ),
    "jump-proof": Mutant(
        guard="after a jump a send without a row is unknown",
        patch=everywhere(pending.after_jump, _jump_is_no_proof(pending.after_jump)),
        scenario="trims",
        seeds=(2,),
    ),
    "exposure": Mutant(
        guard="not written only when no request can still bring it",
        patch=everywhere(pending.at_deadline, _never_unknown(None)),
        scenario="hasty",
        seeds=(0,),
    ),
    "repeated-opening": Mutant(
        guard="an opening counts once", patch=everywhere(fold.was_accepted, always(False)), scenario="names", seeds=(0,)
    ),
    "store-time": Mutant(
        guard="the store time never goes back",
        patch=everywhere(fold.store_time, lambda before, now: now),
        scenario="crowd",
        seeds=(1,),
    ),
    "late-answers": Mutant(
        guard="late answers are checked against the floor", patch=attribute(View, "confirm", _unasked), scenario="trims", seeds=(0,)
    ),
    "late-201": Mutant(
        guard="a late 201 is checked against the floor",
        patch=attribute(View, "confirm", _believed_when("_write")),
        scenario="trims",
        seeds=(0,),
    ),
    "suspend-counts": Mutant(
        guard="views age while the machine is suspended",
        patch=attribute(SimClock, "monotonic_s", _asleep),
        scenario="trims",
        seeds=(0,),
    ),
    "floor-stands": Mutant(
        guard="a floor stands for an hour before anything is deleted",
        patch=attribute(Trimmer, "has_stood", lambda _: always(True)),
        scenario="rush",
        seeds=(0,),
    ),
    "floor-first": Mutant(
        guard="the floor is raised before anything is deleted",
        patch=attribute(Trimmer, "_raise", _delete_first),
        scenario="rush",
        seeds=(0,),
    ),
    "anchor": Mutant(
        guard="the floor is a checkpoint that was read",
        patch=attribute(Trimmer, "_candidate", _between_checkpoints),
        scenario="trims",
        seeds=(0,),
    ),
    "compared-first": Mutant(
        guard="only what is published, and equal in log and table, is trimmed",
        patch=both(attribute(Trimmer, "bound", lambda _: always(2**62)), attribute(Trimmer, "is_anchor", lambda _: always(True))),
        scenario="days",
        seeds=(0,),
    ),
    "txn": Mutant(
        guard="a publisher commits only where the table still ends there",
        patch=attribute(Publisher, "may_commit", lambda _: always(True)),
        scenario="days",
        seeds=(15,),
    ),
    "links-outlive": Mutant(
        guard="handed batches stay as long as their entries",
        patch=attribute(Collector, "is_past", lambda _: always(True)),
        scenario="days",
        seeds=(0,),
    ),
    "job-links-outlive": Mutant(
        guard="linked jobs stay as long as their entries",
        patch=attribute(Collector, "may_delete", lambda _: _async_true),
        scenario="days",
        seeds=(0,),
    ),
    "job-closed": Mutant(
        guard="a closed job is not linked any more",
        patch=both(attribute(Judge, "_is_closed", lambda _: always(False)), everywhere(pending._closed, always(None))),
        scenario="jobs",
        seeds=(4,),
    ),
    "fresh-snapshot": Mutant(
        guard="the collector lists first and then asks the table anew",
        patch=attribute(Collector, "list_then_snapshot", _old_snapshot),
        scenario="files",
        seeds=(12,),
    ),
}


async def _async_true(*_: object) -> bool:
    return True
