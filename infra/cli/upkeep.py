"""The maintenance of a lake's topics by the command line: once, or as one of those that share the role."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from ...aio import Lake
from ...coordinator.roles import Part, run_roles
from ...coordinator.upkeep import OnStep, Upkeep
from ...log import PenstockError, TopicNotFound
from ...log.paths import TopicPaths
from ...log.stores import probe_conditional_writes
from ...log.table.maintenance import MaintenanceOptions
from ...log.topics import read_record


async def maintain_once(lake: Lake, names: Sequence[str], report: OnStep) -> None:
    """Every step of every topic once."""
    upkeep = await _prepared(lake, names, report, MaintenanceOptions())
    for name in names or await upkeep.topics():
        await upkeep.once(name)


async def maintain_forever(
    lake: Lake, names: Sequence[str], report: OnStep, stop: asyncio.Event, *, publish_interval: timedelta
) -> None:
    """Play the role of maintenance until ``stop`` is set; steps under way are ended first. Faults of the store are reported and outlived."""
    upkeep = await _prepared(lake, names, report, MaintenanceOptions(publish_interval=publish_interval))

    async def named() -> Sequence[str]:
        return names

    def failed(topic: str, error: PenstockError) -> None:
        report(topic, "look", error)

    part = Part(topics=named if names else upkeep.topics, play=upkeep.play, all_topics=not names)
    coordination = lake.coordination
    await run_roles(
        coordination.cells,
        coordination.worker,
        coordination.watch,
        lake.runtime,
        part,
        stop,
        ready=coordination.claim,
        report=failed,
        patience_s=0.0,
    )


async def _prepared(lake: Lake, names: Sequence[str], report: OnStep, options: MaintenanceOptions) -> Upkeep:
    """Raises `TopicNotFound` for a name that is not there, and what makes the store unfit for writing."""
    await probe_conditional_writes(lake.store, lake.runtime)
    for name in names:
        if await read_record(lake.store, TopicPaths.of(name)) is None:
            raise TopicNotFound("there is no such topic", object=name, hint="`penstock topic list` names those that are there")
    return Upkeep(lake, lake.coordination.cells, lake.coordination.groups, options=options, on_step=report)
