"""Finds owned cells that the table has lost under their owner, while nothing is left to be written to them.

A standby that takes over from the table's server may lack the last commits. If it lacks a heartbeat, the worker loses its lease. So only a write
that no heartbeat has followed may be lost unnoticed, and the owner looks at it once: when the cell stays so for two heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ...log.errors import RetryError
from ..queues.keeper import OwnershipLost, QueueKeeper
from .balance import Queue
from .member_context import MemberContext

log = logging.getLogger("penstock.coordinator")

BEATS_UNTIL_SURE = 2
"""The heartbeats after which a write is not lost without one of them."""


@dataclass(slots=True)
class _Noted:
    """A cell as its owner wrote it last."""

    keeper: QueueKeeper
    writes: int
    look_s: float
    """When to look at it; infinite once that is done."""


class RecentWrites:
    """The last writes of one member to the cells of its queues."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._noted: dict[Queue, _Noted] = {}

    async def look(self, keepers: Mapping[Queue, QueueKeeper]) -> None:
        """Read the cells that are due, each once; a keeper whose cell was lost has ended then."""
        now_s = self._context.clock.monotonic_s()
        self._noted = {queue: one for queue, one in self._noted.items() if keepers.get(queue) is one.keeper}
        due: list[_Noted] = []
        for queue, keeper in keepers.items():
            noted = self._noted.get(queue)
            if noted is None or noted.writes != keeper.writes:
                self._noted[queue] = _Noted(keeper, keeper.writes, now_s + BEATS_UNTIL_SURE * self._context.beat_s)
            elif now_s >= noted.look_s:
                due.append(noted)
        await asyncio.gather(*map(self._look, due))

    async def _look(self, noted: _Noted) -> None:
        with suppress(RetryError):  # the next round does
            try:
                await noted.keeper.look()
            except OwnershipLost as error:
                log.warning("group %s: the table has lost what this member wrote: %s", self._context.group, error)
            noted.look_s = math.inf
