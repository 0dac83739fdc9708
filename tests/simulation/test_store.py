"""The simulated store: each fault does to the caller and to the store what its name says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.log.errors import StoreUnavailable
from penstock.log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put
from tests.simulation.faults import Call, Fault, RandomFaults, ScriptedFaults, Where, possible
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.process import Crashed, SimProcess
from tests.simulation.store import SimClient, SimStore

pytestmark = pytest.mark.simulation


class Run:
    """One process whose n-th call meets ``fault``."""

    def __init__(self, fault: Fault | None = None, *, occurrence: int = 1, network: Network | None = None) -> None:
        self.kernel = Kernel(1)
        self.plan = ScriptedFaults([(Where(process="p", occurrence=occurrence), fault)] if fault else [])
        self.store: SimStore = self.kernel.store(plan=self.plan, network=network)
        self.process: SimProcess = self.kernel.process("p")
        self.client: SimClient = self.store.client(self.process)

    def outcome(self, work: Callable[[SimClient], Awaitable[Any]]) -> tuple[str, float]:
        """How the call ended, and when; the run goes on until everything has landed."""

        async def attempt() -> tuple[str, float]:
            try:
                await work(self.client)
            except (StoreUnavailable, Conflict, ObjectMissing) as error:
                return type(error).__name__, self.kernel.loop.now
            return "done", self.kernel.loop.now

        async def main() -> tuple[str, float]:
            try:
                ended = await self.process.run(attempt())
            except Crashed:
                ended = "crashed", self.kernel.loop.now
            await self.store.settled()
            return ended

        return self.kernel.run(main())

    def holds(self) -> list[str]:
        return list(self.store.memory._objects)


async def create(client: ObjectStore) -> None:
    await client.put("k", [b"some ", memoryview(b"bytes")], mode=Put.CREATE)


# fault: how the call ends, within which seconds, whether the write is there in the end
EXPECTED: dict[Fault | None, tuple[str, tuple[float, float], bool]] = {
    None: ("done", (0.001, 30), True),
    Fault.CRASH_BEFORE: ("crashed", (0, 0), False),
    Fault.CRASH_IN_FLIGHT: ("crashed", (0, 0), True),
    Fault.CRASH_AFTER: ("crashed", (0.001, 30), True),
    Fault.LOST_REQUEST: ("StoreUnavailable", (30, 30), False),
    Fault.LOST_ANSWER: ("StoreUnavailable", (30, 30), True),
    Fault.LATE_APPLY: ("StoreUnavailable", (30, 30), True),
    Fault.OVERTAKEN: ("StoreUnavailable", (30, 30), True),
    Fault.DUPLICATE: ("done", (0.001, 30), True),
    Fault.UNAVAILABLE: ("StoreUnavailable", (0.001, 29), False),
    Fault.UNDECIDED: ("Conflict", (0.001, 29), False),
    Fault.OWN_CONFLICT: ("Conflict", (0.001, 29), True),
    Fault.SLOW: ("done", (2, 30), True),
    Fault.PAUSE_BEFORE: ("done", (1, 300_000), True),
    Fault.PAUSE_AFTER: ("done", (1, 300_000), True),
    Fault.SUSPEND_BEFORE: ("done", (1, 300_000), True),
    Fault.SUSPEND_AFTER: ("done", (1, 300_000), True),
}


@pytest.mark.parametrize("fault", [None, *Fault], ids=str)
def test_a_write_that_meets_a_fault(fault: Fault | None) -> None:
    run = Run(fault, network=Network(very_slow=0, slow_s=(2, 29)))
    ended, (least, most), written = EXPECTED[fault]
    how, when = run.outcome(create)
    assert how == ended
    assert least <= when <= most
    assert run.holds() == (["k"] if written else [])
    assert [done for _, done in run.plan.done] == ([fault] if fault else [])
    if fault:
        assert run.kernel.counts[f"fault: {fault.value}"] == 1


def test_an_answer_slower_than_the_clients_time_out_is_none_but_the_write_lands() -> None:
    run = Run(Fault.SLOW, network=Network(slow_s=(100, 200)))
    assert run.outcome(create) == ("StoreUnavailable", 30)
    assert run.holds() == ["k"]
    assert run.kernel.loop.now >= 30


def test_a_repeated_delete_removes_what_came_after_it() -> None:
    run = Run(Fault.DUPLICATE, occurrence=2)

    async def work(client: ObjectStore) -> None:
        await create(client)
        await client.delete("k")
        await create(client)

    assert run.outcome(work)[0] == "done"
    assert run.holds() == []
    assert run.kernel.counts["write landed twice"] == 1


def test_an_overtaken_write_lands_when_its_writer_has_read_back_and_decided() -> None:
    run = Run(Fault.OVERTAKEN, occurrence=2)

    async def work(client: ObjectStore) -> None:
        version = await client.put("k", b"one", mode=Put.CREATE)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await client.put("k", b"two", mode=IfMatch(version))
            assert (await client.get("k")).data == b"one", "neither is there, nor does its repetition tell"
        with pytest.raises(Conflict):
            await client.put("k", b"three", mode=IfMatch(version))
        assert (await client.get("k")).data == b"two"

    assert run.outcome(work)[0] == "done"


def test_faults_of_writes_do_not_befall_reads() -> None:
    read, create_, replace = (
        Call(1, "p", 1, verb, "k", conditional) for verb, conditional in (("get", False), ("put", True), ("put", False))
    )
    assert [possible(Fault.LATE_APPLY, call) for call in (read, create_, replace)] == [False, True, True]
    assert [possible(Fault.OWN_CONFLICT, call) for call in (read, create_, replace)] == [False, True, False]
    assert all(possible(Fault.LOST_ANSWER, call) for call in (read, create_, replace))


def test_all_verbs_reach_the_store() -> None:
    run = Run()

    async def work(client: ObjectStore) -> None:
        version = await client.put("a/1", b"one", mode=Put.CREATE)
        await client.put("a/1", b"uno", mode=IfMatch(version))
        with pytest.raises(Conflict):
            await client.put("a/1", b"ein", mode=IfMatch(version))
        await client.put_large("a/b/2", b"two")
        assert (await client.get("a/1")).data == b"uno"
        assert await client.get_range("a/1", 1, 3) == b"no"
        assert [info.key for info in await client.list("a/")] == ["a/1", "a/b/2"]
        assert await client.list_folders("a/") == ["b"]
        assert await client.clock_ms() > 0
        await client.delete("a/1")
        with pytest.raises(ObjectMissing):
            await client.get("a/1")
        await client.close()

    assert isinstance(run.client, ObjectStore)
    assert run.outcome(work)[0] == "done"
    assert {call.verb for call in run.store.calls} == set(Network().latency_ms)


def test_a_list_in_pages_is_no_snapshot() -> None:
    run = Run(network=Network(page_keys=2))

    async def work(client: ObjectStore) -> None:
        for number in range(5):
            await client.put(f"k{number}", b"", mode=Put.CREATE)
        assert [info.key for info in await client.list("k", after="k0", max_keys=3)] == ["k1", "k2", "k3"]
        gate = run.store.hold(verb="list", occurrence=2)
        listing = asyncio.ensure_future(client.list("k"))
        await gate.reached()
        await client.delete("k0")
        await client.put("k9", b"", mode=Put.CREATE)
        gate.release()
        assert [info.key for info in await listing] == ["k0", "k1", "k2", "k3", "k4", "k9"]

    assert run.outcome(work)[0] == "done"


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_gate_holds_one_request_on_either_side_of_its_effect(side: Any) -> None:
    run = Run()

    async def work(client: ObjectStore) -> None:
        gate = run.store.hold(side, process="p", verb="put", key=lambda key: key.startswith("k"))
        opened = run.store.hold(side, verb="put", key=lambda key: key == "open")
        opened.release()
        await client.put("open", b"", mode=Put.CREATE)
        writing = asyncio.ensure_future(create(client))
        assert (await gate.reached()).key == "k"
        await asyncio.sleep(1000)
        assert run.holds() == (["open"] if side == "before" else ["open", "k"])
        assert not writing.done()
        gate.release()
        await writing

    assert run.outcome(work)[0] == "done"


def test_a_request_outlives_the_caller_that_gave_it_up() -> None:
    run = Run()

    async def work(client: ObjectStore) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await create(client)
        assert run.holds() == []

    assert run.outcome(work)[0] == "done"
    assert run.holds() == ["k"]
    assert run.kernel.counts["write landed after its caller was gone"] == 1


def test_a_process_reads_what_the_store_says_when_its_answer_arrives_late() -> None:
    run = Run(Fault.PAUSE_AFTER, occurrence=2, network=Network(pause_s=(86_400, 86_401)))

    async def work(client: ObjectStore) -> None:
        await create(client)
        reading = asyncio.ensure_future(client.get("k"))
        await asyncio.sleep(0)
        run.kernel.loop.call_world(3600, run.store.memory._objects.clear)
        assert (await reading).data == b"some bytes"

    how, when = run.outcome(work)
    assert how == "done"
    assert when > 86_400
    assert run.holds() == []


def test_random_faults_can_be_ended() -> None:
    always = RandomFaults({Fault.UNAVAILABLE: 1.0}, Kernel(1).rng)
    call = Call(1, "p", 1, "get", "k", False)
    assert always.decide(call) == Fault.UNAVAILABLE
    always.active = False
    assert always.decide(call) is None
