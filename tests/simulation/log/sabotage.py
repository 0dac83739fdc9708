"""Damage on the store, and the repairs that answer it."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.log.lake import LogLake
from penstock.log.repair import repair
from penstock.log.tail.salvage import read_remains
from tests.simulation.log.actors import Role
from tests.simulation.log.history import Damage
from tests.simulation.log.world import World
from tests.simulation.process import SimProcess
from tests.simulation.simulated import log_uniform

FIRST_LIFE = 1
"""The entry that creates the topic; these worlds know no other life of it."""


class Saboteur(Role):
    """Damages entries in mid-log: a byte of the rows that is another, or an object that is cut off."""

    def __init__(self, name: str, *, times: int, cut_off: float, every_s: tuple[float, float]) -> None:
        super().__init__(name)
        self._left = times
        self._cut_off = cut_off
        self._every_s = every_s

    def goal(self, world: World) -> bool:
        return self._left <= 0

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng, archive, paths = process.runtime.random, world.archive, world.paths
        await asyncio.sleep(log_uniform(rng, *self._every_s))
        numbers = sorted(number for key in archive.objects() if (number := paths.entry_number(key)) is not None)
        in_mid_log = [number for number in numbers[:-1] if number > FIRST_LIFE]
        if not in_mid_log:
            return
        number = rng.choice(in_mid_log[-4:])  # what is new is not published yet
        key = paths.entry(number)
        data = (await archive.get(key)).data
        cut_off = rng.random() < self._cut_off
        if not self._cut_off and not pq.read_metadata(pa.BufferReader(data)).num_rows:
            return  # an opening, say: any byte of it is of its footer
        await archive.damage(key, data[: len(data) // 2] if cut_off else data[:40] + bytes([data[40] ^ 1]) + data[41:])
        remains = await read_remains(archive, paths, number)
        world.history.damaged[key] = Damage(footer=remains is None)
        world.counts["damaged footer" if remains is None else "damaged rows"] += 1
        self._left -= 1


class Repairer(Role):
    """Runs `penstock repair` now and then, until nobody damages anything any more and the log is whole."""

    def __init__(self, name: str, saboteur: Saboteur, *, every_s: tuple[float, float]) -> None:
        super().__init__(name)
        self._saboteur = saboteur
        self._every_s = every_s
        self._finished = False

    def goal(self, world: World) -> bool:
        return self._finished

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        await asyncio.sleep(log_uniform(process.runtime.random, *self._every_s))
        all_done = self._saboteur.goal(world)
        report = await repair(lake.store, world.paths, process.runtime)
        world.history.lost += [(FIRST_LIFE, *lost) for lost in report.lost]
        world.counts["repair"] += report.written
        world.counts["repair of a lost entry"] += report.written and not report.exact
        self._finished = all_done and not report.needed
