"""What contenders for a store do in the race tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier as ProcessBarrier

from penstock.log.errors import StoreUnavailable
from penstock.log.stores import Conflict, IfMatch, ObjectMissing, ObjectStore, Put
from tests.log.stores.conftest import Place
from tests.racing import WAIT_S, Barrier, Racers, in_threads


@dataclass(frozen=True)
class Win:
    """A create that its contender holds for its own."""

    key: str
    body: bytes


async def contend(store: ObjectStore, name: str, keys: int, barrier: Barrier) -> list[Win]:
    """Create the same keys at the same moments as everybody else; say which ones were won."""
    wins = []
    for number in range(keys):
        key, body = f"race/{number:020}", f"{name}-{number}-".encode() * 60
        barrier.wait(WAIT_S)
        if await _create(store, key, body):
            wins.append(Win(key, body))
    return wins


async def _create(store: ObjectStore, key: str, body: bytes) -> bool:
    """Create as an appender does: what is not confirmed is read back, and put again while the key is free."""
    for _ in range(20):
        try:
            await store.put(key, body, mode=Put.CREATE)
            return True
        except (Conflict, StoreUnavailable):
            try:
                return (await store.get(key)).data == body
            except ObjectMissing:
                continue
    raise AssertionError(f"20 attempts to create {key} decided nothing")


async def increment(store: ObjectStore, times: int, name: str) -> int:
    """Count up a shared counter; return how many attempts were refused."""
    refused = 0
    for time in range(times):
        mark = f"{name}.{time}"  # equal bytes have equal versions on S3, so no two writes are alike
        while True:
            held = await store.get("counter")
            count, _, _ = held.data.partition(b" ")
            try:
                await store.put("counter", b"%d %s" % (int(count) + 1, mark.encode()), mode=IfMatch(held.version))
                break
            except Conflict:
                refused += 1
    return refused


def _contend_in_process(place: Place, number: int, barrier: ProcessBarrier, *, threads: int, keys: int) -> list[Win]:
    first = number * threads
    won = in_threads(place.open, threads, lambda store, thread: contend(store, f"c{first + thread}", keys, barrier))
    return [win for wins in won for win in wins]


def race_in_processes(racers: Racers, place: Place, threads: int, keys: int) -> list[Win]:
    """The race of `contend` between processes of several threads each."""
    work = partial(_contend_in_process, threads=threads, keys=keys)
    return [win for wins in racers.run(place, work, threads=threads) for win in wins]
