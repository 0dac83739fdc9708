"""Maintenance of a topic of type DELAY and of its timer log, a round at a time."""

from __future__ import annotations

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.maintenance import LakeMaintenance
from penstock.coordinator.registry.groups import GroupRegistry
from penstock.log.errors import PenstockError
from penstock.log.lake import LogLake
from penstock.log.paths import timer_log_name
from tests.simulation.timers.plot import TOPIC


async def maintain(lake: LogLake, cells: Cells) -> list[tuple[str, PenstockError]]:
    """Every step once; what failed, and how."""
    failed: list[tuple[str, PenstockError]] = []

    def told(topic: str, step: str, result: object) -> None:
        if isinstance(result, PenstockError):
            failed.append((step, result))

    upkeep = LakeMaintenance(lake, cells, GroupRegistry(cells, lake.runtime), on_step=told)
    for name in (TOPIC, timer_log_name(TOPIC)):
        try:
            await upkeep.once(name)
        except PenstockError as error:
            failed.append(("once", error))
    return failed
