"""The coordination table is put back to how it was a while before, while the log goes on: everybody is stopped for it, as the guide says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.simulation.consumers.records import BackedUp, PutBack
from tests.simulation.simulated import log_uniform

if TYPE_CHECKING:
    from tests.simulation.consumers.world import Consuming

_STOPS_S = 60.0
"""Who has not left in order by then is killed."""


async def restore(world: Consuming) -> None:
    """Do so again and again."""
    rng = world.kernel.rng("restores")
    while world.plot.restores_every_s:
        await asyncio.sleep(rng.expovariate(1 / world.plot.restores_every_s))
        backup = world.witness.backup()
        world.history.records.append(BackedUp(world.now_s))
        await asyncio.sleep(log_uniform(rng, 0.2, 30.0))
        world.open.clear()
        try:
            await stop(world, in_order=rng.random() < 0.5)
            world.witness.put_back(backup)
            world.history.records.append(PutBack(world.now_s))
            world.counts["the table was put back"] += 1
            await asyncio.sleep(log_uniform(rng, 0.1, 20.0))
        finally:
            world.open.set()


async def stop(world: Consuming, *, in_order: bool) -> None:
    """Machines and operators; producers go on."""
    if in_order:
        leaving = [asyncio.ensure_future(machine.deploy()) for machine in world.machines]
        _, late = await asyncio.wait(leaving, timeout=_STOPS_S)
        for one in late:
            one.cancel()
    for process in (world.operator, *(machine.process for machine in world.machines)):
        if process is not None:
            process.crash()
    for machine in world.machines:
        if machine.dead is not None:
            await machine.dead
    await world.table.settled()
