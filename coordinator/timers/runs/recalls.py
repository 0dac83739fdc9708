"""Objects with recalled messages for which the cell has no room, each larger than the next."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....log.errors import DataDamaged
from ....log.format.sealed import check_seal, read_rows, write_file
from ....log.runtime.runtime import Runtime
from ....log.stores.protocol import ObjectStore
from ...cells.keys import timer_folder
from ..cell.selection import FOREVER, WaitingIndex, without
from ..cell.state import DeliveredBounds, DuePosition, TimerRun, TimerState

_SCHEMA = pa.schema([pa.field("time_us", pa.int64()), pa.field("offset", pa.int64())])
_NONE = WaitingIndex(np.empty(0, np.int64), np.empty(0, np.int64))


def recalls_key(topic: str, log_incarnation: str, name: str) -> str:
    return f"{timer_folder(topic, log_incarnation)}{name}.recalled"


@dataclass(frozen=True, slots=True)
class RecallSpill:
    """Recalled messages in an object that the cell does not name."""

    recalled: frozenset[DuePosition]
    absorbed: tuple[TimerRun, ...]
    run: TimerRun
    begun_s: float


class RecallObjects:
    """The objects of one life of a topic's timers, as read by this process."""

    def __init__(self, store: ObjectStore, runtime: Runtime, topic: str, log_incarnation: str) -> None:
        self._store = store
        self._runtime = runtime
        self._topic = topic
        self._life = log_incarnation
        self._read: dict[str, WaitingIndex] = {}
        self._offsets: npt.NDArray[np.int64] = _NONE.offset

    async def keep_to(self, runs: tuple[TimerRun, ...]) -> None:
        """Read the objects that the cell names, and forget others. Raises `ObjectMissing` and `DataDamaged`."""
        if {run.name for run in runs} == self._read.keys():
            return
        self._read = {run.name: self._read[run.name] if run.name in self._read else await self._get(run) for run in runs}
        self._offsets = np.sort(np.concatenate([_NONE.offset, *(one.offset for one in self._read.values())]))

    def without(self, waiting: WaitingIndex, state: TimerState) -> WaitingIndex:
        kept = without(waiting, state.recalled)
        return kept.only(~np.isin(kept.offset, self._offsets)) if len(self._offsets) else kept

    def has(self, due: DuePosition) -> bool:
        return bool(np.isin(due.offset, self._offsets))

    def spill(self, state: TimerState) -> Coroutine[Any, Any, RecallSpill] | None:
        """A coroutine that writes the cell's recalls of known messages, and smaller objects, to an object; None without any."""
        recalled = frozenset(due for due in state.recalled if due.offset < state.settled.known)
        if not recalled:
            return None
        rows = len(recalled)
        absorbed: tuple[TimerRun, ...] = ()
        for run in reversed(state.recalls):
            if run.rows > rows:
                break
            rows, absorbed = rows + run.rows, (*absorbed, run)
        pieces = [_waiting(recalled), *(self._read[run.name] for run in absorbed)]
        return self._write(pieces, recalled, absorbed, state.settled.due)

    async def _write(
        self, pieces: list[WaitingIndex], recalled: frozenset[DuePosition], absorbed: tuple[TimerRun, ...], settled: DuePosition
    ) -> RecallSpill:
        begun_s = self._runtime.clock.monotonic_s()
        time_us = np.concatenate([one.time_us for one in pieces])
        offset = np.concatenate([one.offset for one in pieces])
        kept = WaitingIndex(time_us, offset).within(DeliveredBounds(FOREVER.offset, FOREVER))
        last = DuePosition(int(kept.time_us[-1]), int(kept.offset[-1]))
        table = pa.table({"time_us": kept.time_us, "offset": kept.offset}, schema=_SCHEMA)
        data = await self._runtime.offload(lambda: write_file(table, {}))
        run = TimerRun(self._runtime.new_id(), table.num_rows, len(data), last)
        await self._store.put_large(recalls_key(self._topic, self._life, run.name), data)
        return RecallSpill(recalled, absorbed, run, begun_s)

    async def _get(self, run: TimerRun) -> WaitingIndex:
        key = recalls_key(self._topic, self._life, run.name)
        data = (await self._store.get(key)).data
        check_seal(data, where=key)
        table = read_rows(data, where=key, schema=_SCHEMA)
        found = (
            None if any(column.null_count for column in table.columns) else WaitingIndex(*(one.to_numpy() for one in table.columns))
        )
        if found is None or not _is_of(found, run):
            raise DataDamaged(
                "the object does not hold the recalled messages that its cell names",
                operation="play timers",
                object=key,
                expected=f"{run.rows} messages by delivery time, the last due at {run.last.time_us} with offset {run.last.offset}",
                observed=f"{table.num_rows} rows" + (" with nulls" if found is None else ""),
            )
        return found


def _is_of(waiting: WaitingIndex, run: TimerRun) -> bool:
    if len(waiting) != run.rows or not run.rows or int(waiting.offset.min()) < 0:
        return False
    return waiting.is_by_due and DuePosition(int(waiting.time_us[-1]), int(waiting.offset[-1])) == run.last


def _waiting(dues: frozenset[DuePosition]) -> WaitingIndex:
    ordered = sorted(dues)
    return WaitingIndex(np.array([due.time_us for due in ordered], np.int64), np.array([due.offset for due in ordered], np.int64))
