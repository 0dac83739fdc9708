"""A store that reproduces, at a chosen call, faults of object stores and networks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeVar

from ..errors import NO_ROOM, PenstockError, PermissionDenied, StorageFull, StoreUnavailable
from ..runtime.runtime import Runtime
from .protocol import Conflict, ObjectStore
from .wrapper import StoreCall, StoreWrapper

T = TypeVar("T")


class FaultKind(Enum):
    """Writes are put, put_large and delete; conditional ones, puts that create or match."""

    FAIL_BEFORE = "fail_before"
    """The request does not reach the store."""
    THROTTLED = "throttled"
    """503: not carried out."""
    LOST_ANSWER = "lost_answer"
    """Carried out, without an answer; a refusal gets lost too."""
    LATE_APPLY = "late_apply"
    """An error now; carried out ``delay_s`` later. Writes only."""
    DUPLICATE = "duplicate"
    """Carried out again ``delay_s`` later, unseen by the caller. Writes only."""
    UNDECIDED = "undecided"
    """409, whatever the condition: not carried out. Conditional writes only."""
    REFUSED_AFTER_SUCCESS = "refused_after_success"
    """412, though carried out, as after a client's own retry. Conditional writes only."""
    SLOW_REQUEST = "slow_request"
    """Carried out after ``delay_s``, answered at once."""
    SLOW_ANSWER = "slow_answer"
    """Carried out at once, answered after ``delay_s``."""
    STORAGE_FULL = "storage_full"
    """No room: not carried out. Puts only."""
    PERMISSION = "permission"

    def applies_to(self, call: StoreCall) -> bool:
        match self:
            case FaultKind.LATE_APPLY | FaultKind.DUPLICATE:
                return call.is_write
            case FaultKind.UNDECIDED | FaultKind.REFUSED_AFTER_SUCCESS:
                return call.is_conditional
            case FaultKind.STORAGE_FULL:
                return call.is_write and call.verb != "delete"
            case _:
                return True


_ERRORS: Mapping[FaultKind, tuple[type[PenstockError], str]] = {
    FaultKind.FAIL_BEFORE: (StoreUnavailable, "the connection broke"),
    FaultKind.THROTTLED: (StoreUnavailable, "the store asks to slow down"),
    FaultKind.LOST_ANSWER: (StoreUnavailable, "the connection broke"),
    FaultKind.LATE_APPLY: (StoreUnavailable, "the store did not answer in time"),
    FaultKind.UNDECIDED: (Conflict, "the store could not decide"),
    FaultKind.REFUSED_AFTER_SUCCESS: (Conflict, "the object exists"),
    FaultKind.STORAGE_FULL: (StorageFull, NO_ROOM),
    FaultKind.PERMISSION: (PermissionDenied, "the store refused"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One call's fault."""

    kind: FaultKind
    delay_s: float = 0.0


FaultPlan: TypeAlias = Callable[[int, str, str], Fault | None]
"""``plan(call_number, verb, key)``. Numbers count from 0."""


class FaultStore(StoreWrapper):
    """Lets another store's calls fail by ``plan``. Faults that do not apply are not counted."""

    def __init__(self, inner: ObjectStore, plan: FaultPlan) -> None:
        super().__init__(inner)
        self._plan = plan
        self._calls = 0
        self._fired: Counter[FaultKind] = Counter()
        self._late: set[asyncio.Task[None]] = set()

    @property
    def calls(self) -> int:
        return self._calls

    @property
    def fired(self) -> Mapping[FaultKind, int]:
        """The number of faults by kind, zeros included."""
        return {kind: self._fired[kind] for kind in FaultKind}

    async def settle(self) -> None:
        """Wait for everything still on its way."""
        while self._late:
            await asyncio.gather(*self._late)

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        number, self._calls = self._calls, self._calls + 1
        fault = self._plan(number, call.verb, call.key)
        if fault is None or not fault.kind.applies_to(call):
            return await run()
        self._fired[fault.kind] += 1
        match fault.kind:
            case FaultKind.LOST_ANSWER:
                await _silently(run, 0)
            case FaultKind.LATE_APPLY:
                self._spawn(run, fault.delay_s)
            case FaultKind.REFUSED_AFTER_SUCCESS:
                await run()
            case FaultKind.DUPLICATE:
                try:
                    return await run()
                finally:
                    if fault.delay_s > 0:
                        self._spawn(run, fault.delay_s)
                    else:
                        await _silently(run, 0)
            case FaultKind.SLOW_REQUEST:
                await asyncio.sleep(fault.delay_s)
                return await run()
            case FaultKind.SLOW_ANSWER:
                try:
                    return await run()
                finally:
                    await asyncio.sleep(fault.delay_s)
        error, message = _ERRORS[fault.kind]
        raise error(message, operation=call.verb, object=call.key, observed=f"injected: {fault.kind.value}")

    def _spawn(self, run: Callable[[], Awaitable[object]], delay_s: float) -> None:
        task = asyncio.get_running_loop().create_task(_silently(run, delay_s))
        self._late.add(task)
        task.add_done_callback(self._late.discard)


async def _silently(run: Callable[[], Awaitable[object]], delay_s: float) -> None:
    if delay_s > 0:
        await asyncio.sleep(delay_s)
    with suppress(PenstockError):
        await run()


def scripted_faults(faults: Mapping[int, Fault]) -> FaultPlan:
    return lambda number, _verb, _key: faults.get(number)


def random_faults(
    runtime: Runtime, *, rate: float, kinds: Sequence[FaultKind] = tuple(FaultKind), delay_s_max: float = 1.0
) -> FaultPlan:
    """Each call fails with probability ``rate``."""

    def plan(_number: int, _verb: str, _key: str) -> Fault | None:
        # Drawn for every call, so that one call more does not change the faults of all later ones.
        chance, kind, delay_s = runtime.random.random(), runtime.random.choice(kinds), runtime.random.uniform(0, delay_s_max)
        return Fault(kind, delay_s) if chance < rate else None

    return plan
