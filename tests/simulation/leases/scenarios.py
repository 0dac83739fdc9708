"""Fleets under attack, and fleets that nobody disturbs."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from tests.simulation.faults import FaultPlan, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.leases.ledger import Take
from tests.simulation.leases.world import Fleet, Habits
from tests.simulation.table import CALM_NETWORK, CELLS_ON_S3_MS, DYNAMODB_MS, SQLITE_MS, TABLE_NETWORK

LATENCIES = {"sqlite": SQLITE_MS, "dynamodb": DYNAMODB_MS, "s3": CELLS_ON_S3_MS}

FAR_MS = {"put": (90, 130), "get": (60, 100), "delete": (90, 130), "keys": (100, 200)}


def takes_since(fleet: Fleet, since_s: float) -> list[Take]:
    return [take for take in fleet.ledger.takes if take.at_s > since_s]


def attacked(seed: int | str) -> Fleet:
    """A fleet under faults of the table, crashes, pauses, suspends and deploys; then quiet, in which it must come to an even share."""
    rng = random.Random(f"attacked/{seed}")
    network = replace(TABLE_NETWORK, latency_ms=rng.choice(list(LATENCIES.values())), pause_s=(0.05, 40.0))
    plan = RandomFaults.swarm(Kernel(f"leases/{seed}").rng, rate=rng.choice([0.0, 0.02, 0.1]))
    lease_s = rng.choice([1.0, 5.0, 5.0, 15.0])
    habits = Habits(
        machines=rng.randint(2, 5),
        queues=rng.choice([{"orders": 1}, {"orders": 5}, {"orders": 4, "refunds": 3}]),
        lease_s=lease_s,
        drift=0.05,
        work_s=(0.005, rng.choice([0.1, 2.0])),
        rest_s=rng.choice([0.1, 1.0, 10.0]),
        gap=rng.choice([0.0, 0.0, 0.02]),
    )
    fleet = Fleet(f"leases/{seed}", habits, plan=plan, network=network)

    async def main() -> None:
        await under_attack(fleet, rng, lasts_s=30 * lease_s)
        await asyncio.sleep(max(40.0, 4 * lease_s))  # until the last pause is over
        await fleet.until("even in quiet", fleet.is_even, within_s=3 * lease_s + 10)
        await asyncio.sleep(2 * lease_s)  # until whoever slept knows that it was replaced, and has come again
        await fleet.until("even again", fleet.is_even, within_s=10)
        quiet_s = fleet.now_s
        await asyncio.sleep(10 * lease_s)
        if restless := takes_since(fleet, quiet_s):
            fleet.blame(f"taken in quiet: {restless}")
        for machine in fleet.machines:
            await machine.stop("leave")
        if any(fleet.owners().values()):
            fleet.blame(f"still owned when all had left: {fleet.owners()}")

    fleet.script = main
    return fleet


def skirmish(seed: int | str, *, far: bool = False) -> Fleet:
    """A short attack on three machines whose clocks run at other rates, and which sleep a lot; then they must come to an even share.

    With ``far`` the table is far away, so that they often sleep while a heartbeat is on its way.
    """
    rng = random.Random(f"skirmish/{seed}")
    latency_ms = FAR_MS if far else DYNAMODB_MS
    network = replace(TABLE_NETWORK, latency_ms=latency_ms, pause_s=(0.05, 5.0), late_s=(0.5, 10.0))
    plan = RandomFaults.swarm(Kernel(f"skirmish/{seed}").rng, rate=rng.choice([0.0, 0.05, 0.2]))
    habits = Habits(machines=3, queues={"orders": 6}, lease_s=1.0, drift=0.05, rest_s=0.1, work_s=(0.005, 0.1))
    fleet = Fleet(f"skirmish/{seed}", habits, plan=plan, network=network)

    async def main() -> None:
        await under_attack(fleet, rng, lasts_s=25.0, every_s=1.0)
        await asyncio.sleep(8.0)
        try:
            await fleet.until("even in quiet", fleet.is_even, within_s=13)
        except AssertionError as error:
            fleet.blame(str(error))

    fleet.script = main
    return fleet


def calm(seed: int | str, *, plan: FaultPlan | None = None) -> Fleet:
    """Machines join, leave and are deployed; nothing fails but what ``plan`` says."""
    habits = Habits(machines=3, queues={"orders": 6}, lease_s=1.0, rest_s=0.2)
    network = replace(CALM_NETWORK, pause_s=(0.3, 3.0), late_s=(0.5, 5.0))
    fleet = Fleet(f"calm/{seed}", habits, plan=plan, network=network)

    async def main() -> None:
        await fleet.found()
        machines = [fleet.machine() for _ in range(3)]
        try:
            await fleet.until("even", fleet.is_even, within_s=15)
            await machines[0].deploy()
            await fleet.until("even again", fleet.is_even, within_s=15)
            await machines[1].stop("leave")
            await fleet.until("even among two", fleet.is_even, within_s=15)
            await asyncio.sleep(2)
        except AssertionError as error:
            fleet.blame(str(error))

    fleet.script = main
    return fleet


async def under_attack(fleet: Fleet, rng: random.Random, *, lasts_s: float, every_s: float | None = None) -> None:
    """Begin, and be struck for a while; then all faults end."""
    lease_s = fleet.habits.lease_s
    deploys: list[asyncio.Task[None]] = []

    async def strike() -> None:
        while True:
            await asyncio.sleep(rng.expovariate(1 / (every_s or 3 * lease_s)))
            machine = rng.choice(fleet.machines)
            process = machine.process
            if process is None or process.crashed:
                continue
            match rng.randrange(6):
                case 0:
                    process.crash()
                case 1:
                    process.pause(lease_s * rng.uniform(0.1, 4))
                case 2:
                    process.suspend(lease_s * rng.uniform(0.1, 4))
                case 3:
                    process.step_clock(rng.randint(-3_600_000, 3_600_000))
                case _:
                    deploys.append(asyncio.ensure_future(machine.deploy()))

    await fleet.found()
    for _ in range(fleet.habits.machines):
        fleet.machine()
    blows = asyncio.ensure_future(strike())
    await asyncio.sleep(lasts_s)
    blows.cancel()
    fleet.end_faults()
