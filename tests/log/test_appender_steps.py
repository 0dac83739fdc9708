"""What an appender does in one step, by a clock that stands: what it sends and what it keeps back, and what it makes of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from penstock.log.append.appender import ALONE_INLINE_TIMES, Appender
from penstock.log.append.contention import Pace
from penstock.log.append.in_flight import AppendResult, Outcome, PendingAppend
from penstock.log.errors import NotWritten, StoreUnavailable, TopicDeleted, UnknownOutcome
from penstock.log.format.header import Batch, CloseJob
from penstock.log.limits import CHECKPOINT_ENTRIES, ENTRY_INLINE_BYTES_MAX, VALIDITY_ENTRIES, VIEW_AGE_MAX_S
from penstock.log.stores.faults import Fault, FaultKind, FaultStore
from penstock.log.stores.protocol import ObjectStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.tail.tail import Tail
from tests.lakes import TIMEOUT_S
from tests.log.test_view import trim
from tests.log.topics import LogWriter

T = TypeVar("T")
AT_ONCE = Pace(follow_first_s=0.001, follow_s=0.001, follow_max_s=0.001)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await work

    asyncio.run(in_time())


class Watched(StoreWrapper):
    """Notes which entries and hand-overs are put, and does something else first where it is told to."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.entries: list[str] = []
        self.handed: list[str] = []
        self.before_put: Callable[[], Awaitable[object]] | None = None

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.verb in {"put", "put_large"}:
            if "/log/0" in call.key:
                self.entries.append(call.key)
            if "staged/handed" in call.key:
                self.handed.append(call.key)
            before, self.before_put = self.before_put, None
            if before is not None:
                await before()
        return await run()


async def by_hand(wrap: Callable[[ObjectStore], ObjectStore] = Watched) -> tuple[LogWriter, Any, Appender]:
    log = await LogWriter().create()
    store = wrap(log.store)
    tail = Tail(store, log.paths, log.runtime)
    await tail.open()
    return log, store, Appender(store, log.paths, log.runtime, tail, pace=AT_ONCE)


def one_row(log: LogWriter, generation: int = 1) -> Batch:
    return Batch("mine", False, None, -1, 0, generation, {0: 1}, 0)


async def append(log: LogWriter, appender: Appender, *, size_bytes: int = 1, within_s: float = 60, generation: int = 1) -> Outcome:
    deadline_s = log.clock.monotonic_s() + within_s
    rows = log.rows({0: 1})
    return await appender.append_batch(one_row(log, generation), rows, size_bytes=size_bytes, deadline_s=deadline_s)


def pending(log: LogWriter, **changes: Any) -> PendingAppend:
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    return PendingAppend(log.clock.monotonic_s() + 60, future, **{"batch": one_row(log), "rows": log.rows({0: 1}), **changes})


@pytest.mark.parametrize(("beyond_bytes", "handed"), [(0, 0), (1, 1)])
def test_what_an_entry_can_just_hold_goes_into_it_and_more_is_handed_over_first(beyond_bytes: int, handed: int) -> None:
    async def work() -> None:
        log, store, appender = await by_hand()
        limit_bytes = ENTRY_INLINE_BYTES_MAX * ALONE_INLINE_TIMES
        assert isinstance(await append(log, appender, size_bytes=limit_bytes + beyond_bytes), AppendResult)
        assert len(store.handed) == handed
        await appender.close()

    run(work())


@pytest.mark.parametrize("kind", [None, FaultKind.REFUSED_AFTER_SUCCESS])
def test_who_appended_leads_and_knows_of_nobody_else(kind: FaultKind | None) -> None:
    async def work() -> None:
        faults = [Fault(kind)] if kind else []
        log, _, appender = await by_hand(
            lambda inner: FaultStore(
                inner, lambda _, verb, key: faults.pop() if faults and verb == "put" and "/log/0" in key else None
            )
        )
        assert isinstance(await append(log, appender), AppendResult)
        assert appender._task is not None
        await appender._task
        assert not faults
        assert appender._race.leading
        assert not appender._race.contended(log.clock.monotonic_s())
        await appender.close()

    run(work())


def test_who_was_overtaken_knows_of_others() -> None:
    async def work() -> None:
        log, store, appender = await by_hand()
        store.before_put = lambda: log.send({1: 1})
        assert isinstance(await append(log, appender), AppendResult)
        assert store.entries == [log.paths.entry(2), log.paths.entry(3)]
        assert appender._race.contended(log.clock.monotonic_s())
        await appender.close()

    run(work())


def test_an_entry_that_was_overtaken_while_it_was_encoded_is_not_sent() -> None:
    async def work() -> None:
        log, store, appender = await by_hand()
        overtakes = [True]

        async def offload(work: Callable[[], T], *, size_bytes: int) -> T:
            if overtakes and overtakes.pop():
                await log.send({1: 1})
                await appender._tail.catch_up()
            return work()

        appender._runtime = SimpleNamespace(offload=offload, new_id=log.runtime.new_id, clock=log.clock)  # type: ignore[assignment]
        assert isinstance(await append(log, appender), AppendResult)
        assert store.entries == [log.paths.entry(3)]
        await appender.close()

    run(work())


@pytest.mark.parametrize("read_back", ["absent", "unanswered"])
def test_who_waits_for_nothing_any_more_asks_no_longer_but_knows_its_own_entry_when_it_comes(read_back: str) -> None:
    async def work() -> None:
        def plan(_: int, verb: str, key: str) -> Fault | None:
            entry = f"/log/{2:020d}" in key
            refuses = down and entry and (verb == "put" or (verb == "get" and read_back == "unanswered"))
            return Fault(FaultKind.FAIL_BEFORE) if refuses else None

        down: list[bool] = []
        log, _, appender = await by_hand(lambda inner: FaultStore(inner, plan))
        down.append(True)
        assert isinstance(await append(log, appender, within_s=0.02), UnknownOutcome)
        assert appender._task is not None
        await appender._task
        assert len(appender._own_ids) == 1
        await appender.close()

    run(work())


def test_what_no_entry_can_bring_is_refused_at_once() -> None:
    async def work() -> None:
        log, store, appender = await by_hand()
        assert isinstance(await append(log, appender, generation=0, within_s=0.02), TopicDeleted)
        assert appender._task is None
        assert not store.entries
        await appender.close()

    run(work())


def test_who_slept_past_a_trim_looks_before_it_appends() -> None:
    """Else its entry would go to a place that was trimmed, and what became of it would be unknown."""

    async def work() -> None:
        log, store, appender = await by_hand()
        for _ in range(2 * CHECKPOINT_ENTRIES):
            await log.send({1: 1})
        await trim(log, CHECKPOINT_ENTRIES)
        log.clock.advance(seconds=VIEW_AGE_MAX_S + 1)
        assert isinstance(await append(log, appender), AppendResult)
        assert store.entries == [log.paths.entry(2 * CHECKPOINT_ENTRIES + 2)]
        await appender.close()

    run(work())


# --- handing over -------------------------------------------------------------------------------------------------------------


def test_only_what_no_earlier_request_can_bring_is_handed_over() -> None:
    async def work() -> None:
        log, store, appender = await by_hand()
        tail = log.state.entry
        overdue = pending(log)
        overdue.deadline_s = log.clock.monotonic_s()
        acting = pending(log, batch=None, rows=None, actions=(CloseJob("j"),))
        exposed, handed, lost = (pending(log) for _ in range(3))
        for one in (overdue, acting, handed):
            one.valid_from(tail)
        for one in (exposed, lost):
            one.valid_from(tail - 1)
        handed.handed_tail = tail
        exposed.exposed_until, lost.exposed_until = tail + 1, tail
        chosen = [overdue, acting, exposed, handed, lost]
        for one in chosen:
            appender._in_flight.add(one)
        await appender._hand_over(chosen[:-1])
        assert store.handed == []
        assert isinstance(overdue.future.result(), NotWritten)
        await appender._hand_over(chosen)
        assert len(store.handed) == 1
        assert (lost.handed_tail, lost.valid_until, lost.exposed_until) == (tail, tail + VALIDITY_ENTRIES, tail + VALIDITY_ENTRIES)
        assert lost.batch is not None
        assert len(lost.batch.parts) == 1
        assert exposed.handed_tail is None
        await appender.close()

    run(work())


def test_a_hand_over_that_took_so_long_that_it_was_formed_anew_is_none() -> None:
    async def work() -> None:
        log, store, appender = await by_hand()
        late = pending(log)
        late.valid_from(log.state.entry)

        async def formed_anew() -> None:
            late.valid_from(log.state.entry + VALIDITY_ENTRIES)

        store.before_put = formed_anew
        await appender._hand_over([late])
        assert len(store.handed) == 1
        assert late.handed_tail is None
        assert late.batch is not None
        assert not late.batch.parts
        await appender.close()

    run(work())


@pytest.mark.parametrize(
    ("handed", "passed_over", "served", "looks"), [(True, 0, True, 3), (False, 0, True, 1), (True, 1, True, 1), (True, 0, False, 1)]
)
def test_one_follows_until_there_is_more_to_hand_over_or_no_hope(
    handed: bool, passed_over: int, served: bool, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        log, _, appender = await by_hand()
        one = pending(log)
        one.handed_tail, one.passed_over = (log.state.entry if handed else None), passed_over
        appender._in_flight.add(one)
        looked: list[int] = []

        async def look() -> None:
            looked.append(len(looked))
            if len(looked) == 3:
                one.settle(StoreUnavailable("enough"))

        monkeypatch.setattr(appender._tail, "catch_up", look)
        monkeypatch.setattr(appender._race, "served", lambda *_: served)
        await appender._follow()
        assert len(looked) == looks
        await appender.close()

    run(work())


def test_who_has_nothing_that_an_entry_can_bring_appends_none() -> None:
    async def work() -> None:
        _, store, appender = await by_hand()
        await appender._append_entry()
        assert store.entries == []
        await appender.close()

    run(work())
