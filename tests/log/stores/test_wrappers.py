"""Latency, counting and faults do to a store what they say, and nothing else."""

from __future__ import annotations

import asyncio
import random
from statistics import quantiles

import pytest

from penstock.log.errors import PenstockError, PermissionDenied, StorageFull, StoreUnavailable
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import (
    S3_STANDARD,
    Conflict,
    CountingStore,
    Fault,
    FaultKind,
    FaultStore,
    IfMatch,
    LatencyStore,
    MemoryStore,
    ObjectMissing,
    Put,
    StoreStatistics,
    VerbStatistics,
    Version,
    random_faults,
    scripted_faults,
)
from tests.log.stores.virtual_time import LoopClock, now_s, run_virtual


def seeded(seed: int = 1) -> Runtime:
    return Runtime(random=random.Random(seed), threads=False)


# ------------------------------------------------------------------------------------------------------------------- latency


@pytest.mark.parametrize(("verb", "p50_ms", "p99_ms"), [("put", 28, 75), ("get", 25, 85), ("list", 25, 60)])
def test_latencies_have_the_profiles_percentiles(verb: str, p50_ms: float, p99_ms: float) -> None:
    async def run() -> list[float]:
        inner = MemoryStore()
        await inner.put("k", b"", mode=Put.CREATE)
        store = LatencyStore(inner, runtime=seeded())
        taken = []
        for _ in range(4000):
            started_s = now_s()
            match verb:
                case "put":
                    await store.put("k", b"", mode=Put.REPLACE)
                case "get":
                    await store.get("k")
                case _:
                    await store.list("")
            taken.append((now_s() - started_s) * 1000)
        return taken

    percentiles = quantiles(run_virtual(run()), n=100)
    assert percentiles[49] == pytest.approx(p50_ms, rel=0.05)
    assert percentiles[98] == pytest.approx(p99_ms, rel=0.1)


def test_a_body_takes_time_by_its_size() -> None:
    async def run() -> tuple[float, float]:
        store = LatencyStore(MemoryStore(), runtime=seeded())
        await store.put("k", bytes(80_000_000), mode=Put.CREATE)
        written_s = now_s()
        await store.get("k")
        return written_s, now_s() - written_s

    for taken_s in run_virtual(run()):
        assert taken_s == pytest.approx(1.0 + 0.028, abs=0.1)


def test_a_call_takes_effect_between_its_start_and_its_end() -> None:
    async def run() -> None:
        inner = MemoryStore(clock=LoopClock())
        store = LatencyStore(inner, profile=S3_STANDARD, runtime=seeded())
        put = asyncio.ensure_future(store.put("k", b"", mode=Put.CREATE))
        await asyncio.sleep(0)
        assert await inner.list("") == []
        await put
        ended_s = now_s()
        written_s = (await inner.get("k")).last_modified_ms / 1000
        assert written_s == pytest.approx(ended_s / 2, abs=0.001)

    run_virtual(run())


def test_the_same_seed_takes_the_same_time() -> None:
    async def run(seed: int) -> float:
        store = LatencyStore(MemoryStore(), runtime=seeded(seed))
        for number in range(20):
            await store.put(str(number), b"", mode=Put.CREATE)
        return now_s()

    assert run_virtual(run(7)) == run_virtual(run(7)) != run_virtual(run(8))


# ------------------------------------------------------------------------------------------------------------------ counting


async def test_requests_and_bytes_are_counted_by_verb() -> None:
    store = CountingStore(MemoryStore())
    await store.put("a", b"12345", mode=Put.CREATE)
    with pytest.raises(Conflict):
        await store.put("a", [b"12", b"3"], mode=Put.CREATE)
    before = store.statistics()
    await store.put_large("b", bytes(40 * 1024 * 1024))
    await store.get("a")
    await store.get_range("a", 1, 3)
    with pytest.raises(ObjectMissing):
        await store.get("nothing")
    await store.list("")
    await store.list_folders("")
    await store.delete("a")
    assert before == StoreStatistics(put=VerbStatistics(requests=2, failed=1, bytes=8))
    assert store.statistics() - before == StoreStatistics(
        put=VerbStatistics(requests=3 + 2, bytes=40 * 1024 * 1024),
        get=VerbStatistics(requests=3, failed=1, bytes=7),
        list=VerbStatistics(requests=2),
        delete=VerbStatistics(requests=1),
    )
    await store.clock_ms()
    assert store.statistics().requests == 13 + 3


async def test_a_long_list_is_a_request_per_thousand_keys() -> None:
    inner = MemoryStore()
    for number in range(2001):
        await inner.put(f"{number:04}", b"", mode=Put.CREATE)
    store = CountingStore(inner)
    await store.list("")
    assert store.statistics().list.requests == 3


def test_the_cost_is_that_of_s3() -> None:
    statistics = StoreStatistics(
        put=VerbStatistics(requests=1000),
        get=VerbStatistics(requests=1000),
        list=VerbStatistics(requests=1000),
        delete=VerbStatistics(requests=1000),
    )
    assert statistics.cost_usd == pytest.approx(0.005 + 0.0004 + 0.005)


# -------------------------------------------------------------------------------------------------------------------- faults

Outcome = type[PenstockError] | None

# What a create of an absent key raises, and what the store holds when it returned and when all has settled.
CREATES: dict[FaultKind, tuple[Outcome, bool, bool]] = {
    FaultKind.FAIL_BEFORE: (StoreUnavailable, False, False),
    FaultKind.THROTTLED: (StoreUnavailable, False, False),
    FaultKind.LOST_ANSWER: (StoreUnavailable, True, True),
    FaultKind.LATE_APPLY: (StoreUnavailable, False, True),
    FaultKind.DUPLICATE: (None, True, True),
    FaultKind.UNDECIDED: (Conflict, False, False),
    FaultKind.REFUSED_AFTER_SUCCESS: (Conflict, True, True),
    FaultKind.SLOW_REQUEST: (None, True, True),
    FaultKind.SLOW_ANSWER: (None, True, True),
    FaultKind.STORAGE_FULL: (StorageFull, False, False),
    FaultKind.PERMISSION: (PermissionDenied, False, False),
}


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_does_to_a_create_what_it_says(kind: FaultKind) -> None:
    async def run() -> None:
        inner = MemoryStore()
        store = FaultStore(inner, scripted_faults({1: Fault(kind, 2.0)}))
        error, applied, settled = CREATES[kind]
        await store.list("")
        put = store.put("k", b"body", mode=Put.CREATE)
        if error is None:
            assert isinstance(await put, Version)
        else:
            with pytest.raises(error, match=f"injected: {kind.value}"):
                await put
        assert bool(await inner.list("")) is applied
        await store.settle()
        assert bool(await inner.list("")) is settled
        if settled:
            assert (await inner.get("k")).data == b"body"
        assert store.fired == {each: int(each is kind) for each in FaultKind}
        assert store.calls == 2

    run_virtual(run())


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_that_makes_no_sense_for_a_read_lets_it_pass(kind: FaultKind) -> None:
    async def run() -> None:
        inner = MemoryStore()
        await inner.put("k", b"body", mode=Put.CREATE)
        store = FaultStore(inner, scripted_faults({0: Fault(kind, 2.0)}))
        error, *_ = CREATES[kind]
        writes_only = {
            FaultKind.LATE_APPLY,
            FaultKind.DUPLICATE,
            FaultKind.UNDECIDED,
            FaultKind.REFUSED_AFTER_SUCCESS,
            FaultKind.STORAGE_FULL,
        }
        if kind in writes_only or error is None:
            assert (await store.get("k")).data == b"body"
        else:
            with pytest.raises(error):
                await store.get("k")
        assert store.fired[kind] == (kind not in writes_only)

    run_virtual(run())


def test_a_duplicate_counts_at_the_store_but_only_the_first_answer_is_seen() -> None:
    async def run() -> None:
        inner = MemoryStore()
        first = await inner.put("k", b"0", mode=Put.CREATE)
        store = FaultStore(inner, scripted_faults(dict.fromkeys(range(2), Fault(FaultKind.DUPLICATE))))
        second = await store.put("k", b"1", mode=IfMatch(first))
        assert (await inner.get("k")).version == second, "the second one found its condition broken"
        answered = await store.put("k", b"2", mode=Put.REPLACE)
        assert (await inner.get("k")).version != answered, "the second one wrote again"

    run_virtual(run())


def test_a_late_write_lands_after_the_caller_went_on() -> None:
    async def run() -> None:
        inner = MemoryStore()
        store = FaultStore(inner, scripted_faults({0: Fault(FaultKind.LATE_APPLY, 3600.0)}))
        body = bytearray(b"as sent")
        with pytest.raises(StoreUnavailable):
            await store.put("k", body, mode=Put.REPLACE)
        body[:] = b"changed"
        await store.put("k", b"newer", mode=Put.REPLACE)
        await store.settle()
        assert now_s() == pytest.approx(3600.0)
        assert (await inner.get("k")).data == b"as sent"

    run_virtual(run())


def test_slow_requests_and_slow_answers_differ_in_when_they_apply() -> None:
    async def run() -> None:
        inner = MemoryStore()
        faults = {0: Fault(FaultKind.SLOW_REQUEST, 5.0), 1: Fault(FaultKind.SLOW_ANSWER, 5.0)}
        store = FaultStore(inner, scripted_faults(faults))
        slow_request = asyncio.ensure_future(store.put("request", b"", mode=Put.CREATE))
        slow_answer = asyncio.ensure_future(store.put("answer", b"", mode=Put.CREATE))
        done, _ = await asyncio.wait([slow_request, slow_answer], timeout=1.0)
        assert not done
        assert [info.key for info in await inner.list("")] == ["answer"]
        assert isinstance(await slow_request, Version)
        assert isinstance(await slow_answer, Version)
        assert now_s() == pytest.approx(5.0)

    run_virtual(run())


def test_the_plan_sees_every_call() -> None:
    seen: list[tuple[int, str, str]] = []

    def plan(number: int, verb: str, key: str) -> None:
        seen.append((number, verb, key))

    async def run() -> None:
        store = FaultStore(MemoryStore(), plan)
        await store.put("k", b"", mode=Put.CREATE)
        await store.put_large("l", b"")
        await store.get("k")
        await store.get_range("k", 0, 1)
        await store.list("p")
        await store.list_folders("f/")
        await store.delete("k")
        await store.clock_ms()

    asyncio.run(run())
    verbs = ["put k", "put_large l", "get k", "get k", "list p", "list f/", "delete k", "clock "]
    assert [f"{verb} {key}" for _, verb, key in seen] == verbs
    assert [number for number, _, _ in seen] == list(range(8))


def test_random_faults_repeat_with_their_seed_and_keep_their_rate() -> None:
    def draw(seed: int) -> list[Fault | None]:
        plan = random_faults(seeded(seed), rate=0.2, kinds=[FaultKind.THROTTLED, FaultKind.LATE_APPLY], delay_s_max=3.0)
        return [plan(number, "put", "k") for number in range(2000)]

    faults = [fault for fault in draw(1) if fault]
    assert draw(1) == draw(1) != draw(2)
    assert len(faults) == pytest.approx(400, rel=0.2)
    assert {fault.kind for fault in faults} == {FaultKind.THROTTLED, FaultKind.LATE_APPLY}
    assert all(0 <= fault.delay_s <= 3.0 for fault in faults)
