"""Leases in a fleet: queues are taken, held, lost and handed over, and nobody ever works on what is another's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.coordinator.workers.lease import IDLE_AFTER_S, LEASE_IDLE_S, MARGIN
from tests.figures import FIGURES
from tests.simulation.faults import DRAWN
from tests.simulation.leases.scenarios import LATENCIES, attacked, takes_since
from tests.simulation.leases.world import Fleet, Habits, Machine
from tests.simulation.table import CALM_NETWORK
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation]

SEEDS = thoroughly(tuple(range(24)), (1, 8, 9, 13))
"""The few meet everything that the fleets are for."""
BLOCKS = thoroughly(6, 1)


def check(fleet: Fleet) -> None:
    assert not fleet.wrong, "\n".join([*fleet.wrong[:10], f"seed {fleet.kernel.seed!r}"])


async def gathered(fleet: Fleet, machines: int) -> list[Machine]:
    """So many machines, each with its share, and a while later."""
    await fleet.found()
    started = [fleet.machine() for _ in range(machines)]
    await fleet.until("even", fleet.is_even, within_s=60)
    await asyncio.sleep(10)
    return started


@pytest.mark.parametrize(
    ("machines", "lease_s", "latencies"),
    [
        pytest.param(machines, lease_s, latencies, marks=[pytest.mark.thorough] if machines > 3 else [])
        for machines, lease_s in [(2, 1.0), (3, 5.0), (5, 15.0), (12, 5.0)]
        for latencies in LATENCIES
    ],
)
def test_a_killed_worker_is_replaced_within_its_lease_and_a_quarter_and_a_second(
    machines: int, lease_s: float, latencies: str
) -> None:
    """Killed at any phase of its heartbeat, amid whatever it is doing."""
    fleet = Fleet(
        f"{machines}/{lease_s}/{latencies}",
        Habits(queues={"orders": 16}, lease_s=lease_s),
        network=replace(CALM_NETWORK, latency_ms=LATENCIES[latencies]),
    )

    async def main() -> None:
        started = await gathered(fleet, machines)
        for number in range(min(4, machines - 1)):
            await asyncio.sleep(2 * lease_s * fleet.kernel.rng(f"phase/{number}").random())
            dead, killed_s = fleet.owners()["orders", number], fleet.now_s
            [victim] = [one for one in started if one.consumer and one.consumer.member and one.consumer.member.id == dead]
            orphans = {key for key in fleet.keys().values() if fleet.ledger.cell(key).owner == dead}
            await victim.stop("crash")
            await fleet.until("replaced", lambda dead=dead: dead not in fleet.owners().values(), within_s=3 * lease_s)  # type: ignore[misc]
            taken = [take for take in takes_since(fleet, killed_s) if take.before == dead]
            assert {take.key for take in taken} == orphans
            assert all(take.at_s - killed_s <= lease_s * (1 + MARGIN) + 1 for take in taken)
            await fleet.until("even", fleet.is_even, within_s=60)

    fleet.kernel.run(main())
    check(fleet)


@pytest.mark.parametrize("lease_s", [1.0, 5.0, 15.0])
def test_a_planned_hand_over_takes_less_than_a_second(lease_s: float) -> None:
    """From the release to the next take, when a worker joins and when one leaves; and nobody is fenced."""
    fleet = Fleet(f"{lease_s}", Habits(queues={"orders": 16}, lease_s=lease_s))

    async def main() -> None:
        await gathered(fleet, 2)
        joined_s = fleet.now_s
        newcomer = fleet.machine()
        await fleet.until("even among three", fleet.is_even, within_s=30)
        assert gaps(joined_s)
        await asyncio.sleep(20)
        left_s = fleet.now_s
        await newcomer.stop("leave")
        await fleet.until("even among two", fleet.is_even, within_s=30)
        assert gaps(left_s)
        assert not fleet.counts["fenced"]

    def gaps(since_s: float) -> int:
        taken = takes_since(fleet, since_s)
        for take in taken:
            assert take.before == ""
            assert take.at_s - fleet.ledger.released_s[take.key] <= 1
        return len(taken)

    fleet.kernel.run(main())
    check(fleet)


def test_a_rolling_deploy_hands_everything_over_and_fences_nobody() -> None:
    fleet = Fleet(1, Habits(queues={"orders": 16, "refunds": 4}))

    async def main() -> None:
        machines = await gathered(fleet, 5)
        idle: list[float] = []
        for machine in machines:
            since_s = fleet.now_s
            await machine.deploy()
            await fleet.until("even", fleet.is_even, within_s=60)
            idle += [take.at_s - fleet.ledger.released_s[take.key] for take in takes_since(fleet, since_s)]
        assert idle
        assert max(idle) <= 1
        assert not fleet.counts["fenced"]
        assert fleet.counts["deploy"] == 5

    fleet.kernel.run(main())
    check(fleet)


def test_an_owner_that_died_while_idle_is_replaced_after_its_long_lease() -> None:
    fleet = Fleet(1, Habits(rest_s=1e9))

    async def main() -> None:
        machines = await gathered(fleet, 2)
        await asyncio.sleep(IDLE_AFTER_S + 60)
        consumer = machines[0].consumer
        assert consumer is not None
        assert consumer.member is not None
        found = fleet.ledger.heartbeat(consumer.worker.id)
        assert found is not None
        assert found.lease_ms == LEASE_IDLE_S * 1000
        dead = consumer.member.id
        await machines[0].stop("crash")
        took_s = await fleet.until("replaced", lambda: dead not in fleet.owners().values(), within_s=200)
        assert LEASE_IDLE_S < took_s < LEASE_IDLE_S * (1 + MARGIN) + LEASE_IDLE_S / 9 + 1

    fleet.kernel.run(main())
    check(fleet)


def test_a_new_version_that_subscribes_to_one_topic_more_leaves_nothing_unowned() -> None:
    """While old and new run side by side, the new topic is shared by those alone who consume it."""
    fleet = Fleet(1, Habits(queues={"orders": 8, "refunds": 8}))

    async def main() -> None:
        await fleet.found()
        old = [fleet.machine(("orders",)) for _ in range(3)]
        await asyncio.sleep(20)
        new = fleet.machine(("orders", "refunds"))
        await fleet.until("all owned", lambda: all(fleet.owners().values()), within_s=30)
        await asyncio.sleep(20)
        assert new.consumer is not None
        assert new.consumer.member is not None
        owners = fleet.owners()
        shares = Counter(owner for queue, owner in owners.items() if queue[0] == "orders")
        assert sorted(shares.values()) == [2, 2, 2, 2]
        assert {owner for queue, owner in owners.items() if queue[0] == "refunds"} == {new.consumer.member.id}
        for machine in old:
            machine.topics = ("orders", "refunds")
            await machine.deploy()
        await fleet.until("even", fleet.is_even, within_s=30)
        assert max(Counter(fleet.owners().values()).values()) == 4

    fleet.kernel.run(main())
    check(fleet)


def test_who_has_nothing_to_take_reads_little() -> None:
    """More workers than queues: those that stand by, and those that are content, cost a few reads a lease and other worker."""
    fleet = Fleet(1, Habits(queues={"orders": 2}, rest_s=5.0))

    async def main() -> None:
        await fleet.found()
        for _ in range(4):
            fleet.machine()
        await fleet.until("owned", fleet.is_even, within_s=60)
        await asyncio.sleep(60)
        before = Counter(call.process for call in fleet.table.calls)
        queue_reads = Counter(call.process for call in fleet.table.calls if call.verb == "get" and call.key.startswith("queues/"))
        await asyncio.sleep(300)
        after = Counter(call.process for call in fleet.table.calls)
        reads_of_queues = Counter(
            call.process for call in fleet.table.calls if call.verb == "get" and call.key.startswith("queues/")
        )
        for process in after:
            a_beat = (after[process] - before[process]) / (300 / 5 * 3)
            # Its own heartbeat, the group's record, 2 to 3 looks at each of the others, and now and then a queue's cell.
            assert a_beat < 2 + 3 * 3 + 1.5, process
            assert reads_of_queues[process] - queue_reads[process] <= 2 * 300 / 30, process

    fleet.kernel.run(main())
    check(fleet)


def test_many_watch_their_neighbours_only() -> None:
    """Twenty workers with two queues each: what they read does not grow with their square."""
    fleet = Fleet(1, Habits(queues={"orders": 40}, rest_s=60.0, work_s=(0.01, 0.02)))

    async def main() -> None:
        machines = await gathered(fleet, 20)
        await asyncio.sleep(20)
        began, began_s = len(fleet.table.calls), fleet.now_s
        await asyncio.sleep(thoroughly(100, 15))
        reads = sum(call.verb == "get" and call.key.startswith("workers/") for call in fleet.table.calls[began:])
        beats = (fleet.now_s - began_s) * 3 / 5
        assert reads / beats / 20 < 7 * 3 + 20 / 6 + 2
        killed_s = fleet.now_s
        await machines[0].stop("crash")
        await fleet.until("even", fleet.is_even, within_s=5 * (1 + MARGIN) + 1)
        assert fleet.now_s - killed_s <= 5 * (1 + MARGIN) + 1

    fleet.kernel.run(main())
    check(fleet)


# --- Everything at once ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleets() -> list[Fleet]:
    return []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_nobody_works_on_what_is_anothers(block: int, fleets: list[Fleet]) -> None:
    found = [attacked(seed) for seed in SEEDS[block::BLOCKS]]
    for fleet in found:
        fleet.run()
    fleets += found
    assert not [f"{fleet.kernel.seed}: {one}" for fleet in found for one in fleet.wrong[:3]]


@pytest.mark.slow
def test_the_fleets_met_everything_they_are_for(fleets: list[Fleet], record_property: Callable[[str, object], None]) -> None:
    assert len(fleets) == len(SEEDS)
    counts: Counter[str] = Counter()
    for fleet in fleets:
        counts += fleet.counts
        counts["take"] += len(fleet.ledger.takes)
        counts["settled"] += sum(fleet.work.values())
    hours = sum(fleet.now_s for fleet in fleets) / 3600
    figures = ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()))
    record_property(FIGURES, f"leases: {len(SEEDS)} fleets, {hours:.1f} simulated hours\n{figures}")
    wanted = {f"fault: {fault.value}" for fault in DRAWN} | {
        "a take landed after its taker was over",
        "crash",
        "deploy",
        "fenced",
        "lease lost",
        "left",
        "pause",
        "released",
        "round failed",
        "start of a zombie, paused after it asked",
        "suspend",
        "write landed after its caller was gone",
    }
    assert not {what for what in wanted if not counts[what]}
