"""The simulation is as the world is, and nothing else: its scheduler, its processes, and that a careless protocol is caught."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.simulation.faults import DRAWN, Fault, RandomFaults, ScriptedFaults, single_faults
from tests.simulation.kernel import Kernel
from tests.simulation.loop import Deadlock, LimitReached, SimulationError, UnhandledError
from tests.simulation.process import EPOCH_MS, Crashed
from tests.simulation.toy import play
from tests.thorough import thoroughly

pytestmark = pytest.mark.simulation

# ---------------------------------------------------------------------------------------------------------------- scheduler


def order_of_ten(seed: int, *, shuffle: bool = True) -> list[int]:
    kernel, order = Kernel(seed, shuffle=shuffle), list[int]()

    async def main() -> None:
        async def note(number: int) -> None:
            order.append(number)

        await asyncio.gather(*(note(number) for number in range(10)))

    kernel.run(main())
    return order


def test_time_jumps_to_the_next_timer() -> None:
    kernel = Kernel(1)

    async def main() -> float:
        await asyncio.sleep(3 * 86_400)
        return asyncio.get_running_loop().time()

    assert kernel.run(main()) == 3 * 86_400
    assert kernel.loop.steps < 10


def test_the_seed_orders_what_is_ready_and_asyncios_order_is_to_be_had() -> None:
    assert order_of_ten(1) == order_of_ten(1)
    assert len({tuple(order_of_ten(seed)) for seed in range(10)}) > 5
    assert order_of_ten(1, shuffle=False) == list(range(10))


def test_asyncio_as_protocols_use_it_works() -> None:
    kernel = Kernel(1)

    async def main() -> list[object]:
        seen: list[object] = []
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        lock, changed = asyncio.Lock(), asyncio.Condition()

        async def produce() -> None:
            for number in range(3):
                async with lock:
                    await queue.put(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            seen += [await queue.get() for _ in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.get_running_loop().create_future()), 1)
        async with asyncio.timeout(5):
            await asyncio.sleep(1)
        done, pending = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(delay)) for delay in (1, 50)], timeout=10)
        seen += [len(done), len(pending)]
        async with changed:
            changed.notify_all()
        task = asyncio.ensure_future(asyncio.sleep(1000))
        task.cancel()
        seen += await asyncio.gather(task, asyncio.sleep(0, "value"), return_exceptions=True)
        return seen

    *seen, cancelled, value = kernel.run(main())
    assert seen == [0, 1, 2, 1, 1]
    assert isinstance(cancelled, asyncio.CancelledError)
    assert value == "value"
    assert kernel.loop.now == 17


def test_a_deadlock_names_who_waits_where_and_the_seed() -> None:
    kernel = Kernel(77)

    async def wait_for_godot() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"estragon: .*wait_for_godot:\d+ > Event.wait") as caught:
        kernel.run(kernel.process("estragon").run(wait_for_godot()))
    assert "seed 77" in caught.value.__notes__[0]


def test_a_run_without_end_is_ended() -> None:
    async def spin(seconds: float) -> None:
        while await asyncio.sleep(seconds, result=True):
            pass

    with pytest.raises(LimitReached, match="steps"):
        Kernel(1, max_steps=1000).run(spin(0))
    with pytest.raises(LimitReached, match="virtual time"):
        Kernel(1).run(spin(86_400))


def test_an_exception_that_nobody_sees_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("unseen")

    async def lose_a_task(kernel: Kernel) -> None:
        kernel.process("careless").spawn(fail())
        await asyncio.sleep(1)

    async def break_a_callback() -> None:
        asyncio.get_running_loop().call_soon(int, "x")
        await asyncio.sleep(1)

    kernel = Kernel(1)
    with pytest.raises(UnhandledError, match="careless: SimTask exception was never retrieved"):
        kernel.run(lose_a_task(kernel))
    with pytest.raises(UnhandledError, match="a callback failed"):
        Kernel(1).run(break_a_callback())


def test_there_is_one_thread() -> None:
    with pytest.raises(SimulationError, match="one thread"):
        Kernel(1).run(asyncio.to_thread(int))


# ---------------------------------------------------------------------------------------------------------------- processes


def test_a_crashed_process_does_nothing_more_not_even_its_finally_blocks() -> None:
    kernel, seen = Kernel(1), list[str]()

    async def ticks() -> AsyncIterator[int]:
        try:
            while True:
                await asyncio.sleep(1)
                yield 1
        finally:
            seen.append("generator closed")
            await asyncio.sleep(0)

    async def work() -> None:
        try:
            async for _ in ticks():
                seen.append("tick")
        finally:
            seen.append("finally")
            await asyncio.sleep(0)

    async def main() -> list[str]:
        process = kernel.process("victim")
        running = asyncio.ensure_future(process.run(work()))
        process.spawn(asyncio.sleep(2))
        await asyncio.sleep(2.5)
        process.crash()
        process.spawn(work())
        with pytest.raises(Crashed, match="victim"):
            await running
        await asyncio.sleep(100)
        gc.collect()
        return list(seen)

    assert kernel.run(main()) == ["tick", "tick"]
    gc.collect()


def test_a_live_process_closes_the_generators_it_drops() -> None:
    kernel, seen = Kernel(1), list[str]()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)
            seen.append("closed")

    async def take_one() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(5)

    kernel.run(kernel.process("reader").run(take_one()))
    assert seen == ["closed"]


def test_a_paused_process_finds_its_timers_due_and_a_suspended_one_finds_them_as_they_were() -> None:
    kernel = Kernel(1)

    async def main() -> tuple[list[float], list[float]]:
        paused, suspended = kernel.process("paused"), kernel.process("suspended")

        async def wait() -> list[float]:
            loop, clock = asyncio.get_running_loop(), kernel.process("watch", clock=suspended.clock).clock
            before, boot = loop.time(), clock.monotonic_s()
            await asyncio.sleep(10)
            return [kernel.loop.now, loop.time() - before, clock.monotonic_s() - boot]

        runs = asyncio.gather(paused.run(wait()), suspended.run(wait()))
        await asyncio.sleep(4)
        paused.pause(100)
        suspended.suspend(100)
        paused.pause(1)
        first, second = await runs
        return first, second

    paused, suspended = kernel.run(main())
    assert paused == pytest.approx([104, 104, 104])
    assert suspended == pytest.approx([110, 10, 110])
    assert kernel.counts == Counter(pause=2, suspend=1)


def test_each_process_has_clocks_of_its_own() -> None:
    kernel = Kernel(1)
    right, wrong = kernel.process("right"), kernel.process("wrong", max_offset_ms=60_000, max_drift=0.05)

    async def main() -> float:
        assert right.clock.wall_ms() == EPOCH_MS
        assert 0 < abs(wrong.clock.wall_ms() - EPOCH_MS) <= 60_000
        before, wall = wrong.clock.monotonic_s(), wrong.clock.wall_ms()
        wrong.step_clock(-5000)
        assert wrong.clock.wall_ms() == wall - 5000
        await wrong.run(asyncio.sleep(1000))
        assert wrong.clock.monotonic_s() - before == pytest.approx(1000)
        return kernel.loop.now

    assert kernel.run(main()) == pytest.approx(1000 / wrong.clock.rate)
    assert 0.95 <= wrong.clock.rate <= 1.05
    assert wrong.clock.rate != 1


def test_another_actor_shifts_no_ones_chance_and_a_restarted_one_has_its_own() -> None:
    alone, together = Kernel(5), Kernel(5)
    together.process("a")
    first, second = alone.process("b", max_drift=0.05), together.process("b", max_drift=0.05)
    assert first.runtime.new_id() == second.runtime.new_id()
    assert first.clock.rate == second.clock.rate
    again = alone.restart(alone.restart(first))
    assert again.name == "b#3"
    assert again.clock is first.clock
    assert again.runtime.new_id() != Kernel(5).process("b").runtime.new_id()


# ---------------------------------------------------------------------------------------------------------- what it is for

DOUBTS = {Fault.LOST_ANSWER: 0.05, Fault.OWN_CONFLICT: 0.05, Fault.LATE_APPLY: 0.05, Fault.UNDECIDED: 0.05}


def test_a_careless_client_miscounts_and_one_that_reads_back_does_not() -> None:
    runs = thoroughly(60, 12)
    careless = [play(seed, RandomFaults(DOUBTS, Kernel(seed).rng), careful=False).right() for seed in range(runs)]
    careful = [play(seed, RandomFaults(DOUBTS, Kernel(seed).rng)).right() for seed in range(runs)]
    assert careless.count(False) > runs // 3
    assert all(careful)
    assert play(1, careful=False).right(), "without faults even the careless one is right"


def test_a_sweep_meets_every_fault() -> None:
    counts: Counter[str] = Counter()
    for seed in range(thoroughly(150, 40)):
        world = play(seed, RandomFaults.swarm(Kernel(seed).rng, rate=0.15))
        assert world.right(), f"seed {seed}\n{world.kernel.trace.tail()}"
        counts += world.kernel.counts
    never = [fault for fault in DRAWN if not counts[f"fault: {fault.value}"]]
    assert not never
    assert counts["write landed after its caller was gone"]


def test_every_single_fault_is_survived() -> None:
    calls = play(3, clients=2, times=2).store.calls
    scripts = list(single_faults(calls))
    assert len(scripts) > 10 * len(calls)
    for where, fault in scripts[:: thoroughly(1, 9)]:
        plan = ScriptedFaults([(where, fault)])
        world = play(3, plan, clients=2, times=2)
        assert world.right(), f"{fault} at {where}\n{world.kernel.trace.tail()}"
        assert [done for _, done in plan.done] == [fault]
