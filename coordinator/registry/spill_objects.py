"""The objects of waiting messages outside of the cells: sealed Parquet files below ``waiting/``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa
from msgspec.structs import replace

from ...log.errors import DataDamaged, ForeignObject
from ...log.format.sealed import read_footer, read_rows, write_file
from ...log.format.stored_json import whole_number
from ...log.paths import group_folder, topic_folder
from ...log.runtime.runtime import Runtime
from ...log.stores.protocol import ObjectMissing, ObjectStore, Put, delete_all
from ..cells.cells import Cells
from ..cells.keys import queue_key
from ..queues.cell import QueueCell, Spill
from ..queues.codec import decode_cell
from ..queues.spills import WaitingRows
from .groups import GroupRegistry

WAITING = "waiting/"
ORPHAN_AGE_MS = 48 * 3600 * 1000
"""The age at which an unnamed object is deleted."""
NAMED_WITHIN_S = 3600.0
"""The age up to which a cell may first name an object: far below `ORPHAN_AGE_MS`."""
_SUFFIX = ".parquet"
_COLUMNS = ("due_ms", "offset", "attempts", "strikes")
_SCHEMA = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in _COLUMNS])
_HINT = (
    "its messages are safe in the topic, and are kept there; restore the object from a backup or an earlier version of the bucket, "
    "or reset the queue in this group to its first offset to have all from there on once more"
)


@dataclass(frozen=True, slots=True)
class SpillObjects:
    """The objects of one queue in one consumer group."""

    store: ObjectStore
    runtime: Runtime
    group: str
    topic: str
    queue: int

    def key(self, id: str) -> str:
        return f"{waiting_of(self.topic)}{group_folder(self.group)}/{self.queue}/{id}{_SUFFIX}"

    async def write(self, rows: WaitingRows) -> str:
        """Returns the object's id. Raises what the store raises."""
        name = self.runtime.new_id()
        columns = [pa.array(column) for column in (rows.due_ms, rows.offset, rows.attempts, rows.strikes)]
        data = write_file(pa.table(columns, schema=_SCHEMA), self._footer(name))
        await self.store.put(self.key(name), data, mode=Put.CREATE)
        return name

    async def read(self, spill: Spill) -> WaitingRows:
        """Raises `DataDamaged` for a missing or altered object, and what the store raises."""
        key = self.key(spill.id)
        try:
            data = (await self.store.get(key)).data
            footer = read_footer(data, where=key)
            rows = read_rows(data, where=key, schema=_SCHEMA)
        except ObjectMissing as error:
            raise _damaged(key, spill, "there is no such object") from error
        except (DataDamaged, ForeignObject) as error:
            raise _damaged(key, spill, str(error)) from error
        expected, count = self._footer(spill.id), spill.taken + spill.count
        found = {name: footer.get(name) for name in expected}
        if found != expected or rows.num_rows != count:
            raise _damaged(key, spill, f"{rows.num_rows} rows of {found}, expected {count} of {expected}")
        waiting = WaitingRows(*(rows.column(name).to_numpy() for name in _COLUMNS))
        if not waiting.are_sound:
            raise _damaged(key, spill, "negative numbers, rows that are not by due time, or an offset twice")
        return waiting

    async def whole(self, cell: QueueCell) -> QueueCell:
        """The cell with all waiting messages in it. Raises as `read`."""
        rows = [(await self.read(spill)).part(spill.taken) for spill in cell.spills]
        waiting = {offset: tries for part in rows for offset, tries in part.tries().items()}
        return replace(cell, tries={**cell.tries, **waiting}, spills=()) if rows else cell

    async def delete(self, ids: list[str]) -> None:
        """Delete objects that the cell, durably, no longer names. Raises what the store raises."""
        await delete_all(self.store, map(self.key, ids))

    def _footer(self, id: str) -> dict[str, str]:
        return {"id": id, "group": self.group, "topic": self.topic, "queue": str(self.queue)}


def waiting_of(topic: str) -> str:
    return f"{WAITING}{topic_folder(topic)}/"


async def collect_spills(store: ObjectStore, cells: Cells, groups: GroupRegistry, topic: str) -> int:
    """Delete a topic's old objects that no cell names. Returns their number. Raises what store and table raise."""
    listed = await store.list(waiting_of(topic))
    now_ms = await store.clock_ms() if listed else 0
    old: defaultdict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for info in listed:
        parts = info.key.removeprefix(waiting_of(topic)).removesuffix(_SUFFIX).split("/")
        queue_number = whole_number(parts[1]) if len(parts) == 3 else None
        if now_ms - info.last_modified_ms > ORPHAN_AGE_MS and queue_number is not None:
            old[parts[0], queue_number].append((parts[2], info.key))
    records = await groups.all() if old else {}
    orphans = []
    names = {group_folder(group): group for group, record in records.items() if topic in record.positions}
    for (folder, queue), objects in old.items():
        named = set[str]()
        if (group := names.get(folder)) is not None and queue < len(generations := records[group].positions[topic].generations):
            named = await _named(cells, queue_key(group, topic, queue), generations[queue])
        orphans += [key for one, key in objects if one not in named]
    return await delete_all(store, orphans)


async def _named(cells: Cells, key: str, generation: int) -> set[str]:
    stored = await cells.read(key)
    if stored is None:
        return set()
    cell = decode_cell(stored.data, where=key)
    return {spill.id for spill in cell.spills} if cell.generation >= generation else set()


def _damaged(key: str, spill: Spill, observed: str) -> DataDamaged:
    return DataDamaged(
        f"{spill.count:,} messages that wait for their next attempt, from offset {spill.first_offset} on, are not run again: "
        "the object that says when is damaged or missing",
        operation="retry",
        object=key,
        observed=observed,
        hint=_HINT,
    )
