"""The store and the table of a run with timed messages, which tell what is written to the cells of timers, and to records of topics."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.tables import CellVersion
from penstock.coordinator.tables.memory import MemoryTable
from penstock.coordinator.tables.objectstore import _HEADER_BYTES, FOLDER
from penstock.coordinator.timers.cell.codec import decode_timers
from penstock.coordinator.timers.cell.state import TimerState
from penstock.log.paths import TopicPaths
from penstock.log.stores.protocol import Buffer, PutMode, Version
from penstock.log.topic.settings import decode_record
from tests.simulation.log.history import Archive
from tests.simulation.loop import SimLoop
from tests.simulation.process import SimClock
from tests.simulation.timers.records import History, Wrote

TIMERS = "timers/"
"""Of cells' keys."""


class WitnessTable(MemoryTable):
    """A table that tells what it is told of timers."""

    def __init__(self, history: History, loop: SimLoop) -> None:
        super().__init__(name="witness")
        self._history = history
        self._loop = loop

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        version = await super().put(key, data, expected=expected)
        if key.startswith(TIMERS):
            saw_cell(self._history, self._loop.now, key, data[WRITE_ID_BYTES:])
        return version


class WitnessStore(Archive):
    """A store that forgets nothing, and tells the same; no object goes that a cell names."""

    def __init__(self, history: History, loop: SimLoop, timer_log: TopicPaths, run_key: str) -> None:
        super().__init__(name="witness", clock=SimClock(loop))
        self._history = history
        self._loop = loop
        self._timer_log = timer_log
        self._run_key = run_key

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        version = await super().put(key, data, mode=mode)
        if key.startswith(FOLDER + TIMERS):
            cell = bytes((await self.get(key)).data)[_HEADER_BYTES + WRITE_ID_BYTES :]
            saw_cell(self._history, self._loop.now, key.removeprefix(FOLDER), cell)
        elif key == self._timer_log.settings:
            record = decode_record((await self.get(key)).data, where=key)
            self._history.served[record.incarnation] = record.of
        return version

    async def delete(self, key: str) -> None:
        for incarnation, wrote in self._history.cells.items():
            state = wrote[-1].state
            named = {self.key_of(incarnation, run.name) for run in state.runs}
            if key in named | {self.recalls_key_of(incarnation, run.name) for run in state.recalls}:
                self._history.wrong.append(f"T7 {self._loop.now:.3f} s: {key} is deleted, and its cell names it")
        if key.startswith(self._run_key) and key in self._objects:
            self._history.counts["run deleted"] += 1
        await super().delete(key)

    def key_of(self, incarnation: str, run: str) -> str:
        """Of a run's object."""
        return f"{self._run_key}{incarnation}/{run}.parquet"

    def recalls_key_of(self, incarnation: str, run: str) -> str:
        """Of an object of recalled messages."""
        return f"{self._run_key}{incarnation}/{run}.recalled"


def saw_cell(history: History, at_s: float, key: str, data: bytes) -> None:
    incarnation = key.rpartition("/")[2]
    state = decode_timers(data, where=key)
    wrote = history.cells.setdefault(incarnation, [])
    before = wrote[-1].state if wrote else TimerState()
    counts = history.counts
    counts["cell write"] += 1
    counts["claim"] += state.next_sequence > before.next_sequence
    counts["message claimed"] += state.next_sequence - before.next_sequence
    counts["recall noted"] += len(state.recalled - before.recalled)
    counts["run named"] += len({run.name for run in state.runs} - {run.name for run in before.runs})
    new, gone = set(state.recalls) - set(before.recalls), set(before.recalls) - set(state.recalls)
    counts["recalls left the cell"] += len(new)
    counts["recalls put together"] += bool(new and gone)
    counts["gathered"] += state.gathered > before.gathered
    counts["merge"] += len(before.runs) > 1 and len({run.name for run in before.runs} - {run.name for run in state.runs}) > 1
    counts["cell bytes, at most"] = max(counts["cell bytes, at most"], len(data))
    wrote.append(Wrote(at_s, state))
