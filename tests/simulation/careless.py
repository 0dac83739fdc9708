"""A writer that does not look what the fold would void."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pyarrow as pa

from penstock.log.entries import encode_entry
from penstock.log.fold import bases_of
from penstock.log.header import Batch, Header
from penstock.log.lake import Lake
from penstock.log.messages import LOG_SCHEMA
from penstock.log.stores.protocol import Conflict, Put
from penstock.log.view import View
from tests.simulation.actors import Role
from tests.simulation.process import SimProcess
from tests.simulation.world import World, log_uniform


class Careless(Role):
    """Appends entries that hold a batch which came too late: the fold, and not the writer's care, must keep it out."""

    endless = True

    def goal(self, world: World) -> bool:
        return False

    async def attempt(self, world: World, lake: Lake, process: SimProcess) -> None:
        view = View(lake.store, world.paths, process.runtime)
        await view.open()
        rng = process.runtime.random
        while not self.stopping:
            await asyncio.sleep(log_uniform(rng, 0.5, 60.0))
            await view.catch_up()
            state = view.state
            late = Batch("careless", False, None, -1, 0, state.generation, {0: 1}, valid_until=state.entry)
            header = Header(
                state.entry + 1,
                process.runtime.new_id(),
                process.runtime.clock.wall_ms(),
                state.digest,
                bases_of(state, (late,)),
                batches=(late,),
            )
            if not state.alive or view.is_aged:
                continue
            with suppress(Conflict):
                await lake.store.put(world.paths.entry(header.entry), encode_entry(header, {0: _ROW}), mode=Put.CREATE)


_ROW = pa.Table.from_pylist(
    [{"queue": 0, "message_id": "0", "body": b"never to be read", "born_timestamp": 0, "producer": "careless"}], LOG_SCHEMA
)
