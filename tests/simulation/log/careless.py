"""A writer that does not look what the fold would void."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pyarrow as pa

from penstock.log.format.entry import encode_entry
from penstock.log.format.fold import bases_of
from penstock.log.format.handover import read_handed
from penstock.log.format.header import Batch, Header
from penstock.log.lake import LogLake
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.stores.protocol import Conflict, Put
from penstock.log.tail.view import View
from tests.simulation.log.actors import Role
from tests.simulation.log.world import World
from tests.simulation.process import SimProcess
from tests.simulation.simulated import log_uniform


class Careless(Role):
    """Appends entries that hold a batch which came too late, and whatever was ever handed over, again and out of time: the fold, and
    not the writer's care, must keep them out.
    """

    endless = True

    def __init__(self, name: str, *, every_s: tuple[float, float] = (0.5, 60.0)) -> None:
        super().__init__(name)
        self._every_s = every_s
        self._left = 60

    def goal(self, world: World) -> bool:
        return False

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        view = View(lake.store, world.paths, process.runtime)
        await view.open()
        rng = process.runtime.random
        while not self.stopping:
            if self._left <= 0:
                await asyncio.sleep(1e6)
            self._left -= 1
            await asyncio.sleep(log_uniform(rng, *self._every_s))
            listed = await lake.store.list(world.paths.handed)
            found = [await read_handed(lake.store, world.paths, info) for info in rng.sample(listed, min(3, len(listed)))]
            handed = [one for one in found if one is not None]
            await view.catch_up()
            state = view.state
            late = Batch("careless", False, None, -1, 0, state.generation, {0: 1}, valid_until=state.entry)
            batches = (late, *(batch for one in handed for batch in one.batches))
            header = Header(
                state.entry + 1,
                process.runtime.new_id(),
                process.runtime.clock.wall_ms(),
                state.digest,
                bases_of(state, batches),
                openings=tuple(opening for one in handed for opening in one.openings),
                batches=batches,
            )
            if not state.alive or view.is_aged:
                continue
            with suppress(Conflict):
                await lake.store.put(world.paths.entry(header.entry), encode_entry(header, {0: _ROW}), mode=Put.CREATE)


_ROW = pa.Table.from_pylist(
    [{"queue": 0, "message_id": "0", "body": b"never to be read", "born_timestamp": 0, "producer": "careless"}], LOG_SCHEMA
)
