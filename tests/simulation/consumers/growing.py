"""A world whose topic gets more queues, several times, under all that is sent and consumed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from penstock.coordinator.operators.operators import Operators
from penstock.log.errors import InvalidArgument, PenstockError
from penstock.log.lake import LogLake
from tests.simulation.consumers.plot import TOPIC
from tests.simulation.consumers.world import Consuming
from tests.simulation.faults import Call
from tests.simulation.process import SimProcess
from tests.simulation.sweeping import Played


class Growing(Consuming):
    """One run of it."""

    def __init__(self, seed: int | str, *args: Any, **more: Any) -> None:
        super().__init__(seed, *args, **more)
        rng = self.kernel.rng("growing")
        first_s, most_s = rng.uniform(0.05, 0.6) * self.plot.send_for_s, rng.choice([1.0, 0.4 * self.plot.send_for_s])
        self.asked_before: dict[str, int] = {}
        """The number of requests before the first growth, by service."""
        self._left = [first_s, *sorted(first_s + rng.uniform(0.0, most_s) for _ in self.plot.grows[1:])]

    async def _main(self) -> None:
        growing = asyncio.ensure_future(self._lives("grower", self._grow))
        await super()._main()
        await growing

    async def _grow(self, process: SimProcess) -> None:
        """Grow the topic when it is time; a life that begins later goes on with what is left."""
        lake = self.lake(process)
        while self._left:
            await asyncio.sleep(max(0.0, self._left[0] - self.now_s))
            queues = self.plot.all_queues[len(self.plot.all_queues) - len(self._left)]
            self.asked_before = self.asked_before or {"table": len(self.table.calls), "store": len(self.store.calls)}
            try:
                await lake.alter_topic(TOPIC, queues=queues)
            except PenstockError as error:
                self.check_expected("grower", error)
                await asyncio.sleep(0.5)
                continue
            self._left.pop(0)
            self.queues = queues
            self.counts["growth"] += 1
        await self._go_back(lake, process)
        with suppress(PenstockError):
            await lake.close()

    async def _go_back(self, lake: LogLake, process: SimProcess) -> None:
        """Begin again with all queues, a few times, until all is quiet."""
        coordination = self.coordination(process)
        operators, rng = Operators(lake, coordination), self.kernel.rng(f"going back/{process.name}")
        for _ in range(rng.choice([0, 2, 4])):
            await asyncio.sleep(rng.uniform(0.5, 15.0))
            if self.quiet:
                break
            try:
                await operators.reset(rng.choice(list(self.plot.groups)), TOPIC, "earliest")
            except PenstockError as error:
                unbegun = isinstance(error, InvalidArgument) and "has not begun on this topic" in error.message
                self.check_expected("grower", error, allowed=unbegun)
        with suppress(PenstockError):
            await coordination.close()


def since_it_grows(world: Played, service: str, call: Call) -> bool:
    """Only requests from the first growth on: what comes before is as in other stories."""
    assert isinstance(world, Growing)
    return call.number > world.asked_before[service]
