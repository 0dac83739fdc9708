"""The topic as the driver of a read sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from ...coordinator.lakes import LakePlace, OpenLake, lakes
from ...log.errors import DataDamaged, ForeignObject, InvalidArgument, TopicDeleted
from ...log.read.merged_rows import MergedRows
from ...log.read.reader import Reader
from ...log.stores.protocol import ObjectMissing
from ...log.table.delta.scan import files_between
from ...log.table.delta.segment_reader import SegmentReader
from ...log.table.delta.segments import TableFile
from ...log.table.delta.snapshot import Snapshot
from ...log.topic.topics import Topic
from .admission import ROW_BYTES_GUESSED, OffsetRun, Ranges, RowSizes
from .offsets import Place, QueuePositions, ResumePosition, TopicSnapshot, within
from .planned_columns import PlannedSchema, planned_schema

_NEWEST_FILES = 4
"""The newest files of each queue by which unpublished rows' size is guessed."""
_SHARE_ROWS_MIN = 8 * 1024
"""Fewer rows of a queue are less than a row group."""
_FOOTERS_KEPT = 1024


class TopicView:
    """One topic, for the planning process; opened at the first call, so that it can travel."""

    def __init__(self, place: LakePlace, name: str) -> None:
        self._place = place
        self._name = name
        self._topic: Topic | None = None
        self._rows: MergedRows | None = None
        self._snapshot = Snapshot("")
        self._groups: dict[str, list[tuple[int, int]]] = {}
        """The row groups of files in which triggers ended."""

    @property
    def opened(self) -> OpenLake:
        return lakes.open(self._place)

    def refresh(self) -> TopicSnapshot:
        """The present state of the name's topic. Raises `TopicNotFound`, and the store's errors."""
        return self.opened.run(self._refresh)

    def planned_schema(self) -> PlannedSchema | None:
        """The plan of a read; None without a schema. Raises `TopicNotFound`, and the store's errors."""
        return self.opened.run(self._planned_schema)

    def sizes(self, ranges: Ranges) -> RowSizes:
        """Sizes as of the last `refresh`."""
        pieces = {
            queue: [OffsetRun(file.first_offset, file.limit_offset, file.size_bytes) for file in files]
            for queue, (start, limit) in ranges.items()
            if (files := files_between(self._snapshot, queue, start, limit))
        }
        newest = [file for queue in ranges for file in self._snapshot.files.get(queue, ())[-_NEWEST_FILES:]]
        rows = sum(file.rows for file in newest)
        return RowSizes(pieces, sum(file.size_bytes for file in newest) / rows if rows else ROW_BYTES_GUESSED)

    def groups_at(self, available: Ranges, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The row groups of the table that these ends divide: their first offset and the one behind their last, by queue.

        Reads a footer for each file in which an end lies; shares of a few rows and files that cannot be read are left out.
        """
        divided: dict[int, TableFile] = {}
        for queue, (start, limit) in available.items():
            if start + _SHARE_ROWS_MIN <= (end := ends[queue]) < limit:
                for file in files_between(self._snapshot, queue, end - 1, end + 1):
                    if file.first_offset < end < file.limit_offset:
                        divided[queue] = file
        unknown = {file.path: file for file in divided.values() if file.path not in self._groups}
        if unknown:
            if len(self._groups) + len(unknown) > _FOOTERS_KEPT:
                self._groups.clear()
            self._groups |= self.opened.run(lambda: self._row_groups(list(unknown.values())))
        found: dict[int, tuple[int, int]] = {}
        for queue, file in divided.items():
            for first, limit in self._groups.get(file.path, ()):
                if first < ends[queue] < limit:
                    found[queue] = first, limit
        return found

    async def _row_groups(self, files: Sequence[TableFile]) -> dict[str, list[tuple[int, int]]]:
        topic = self._topic
        assert topic is not None, "refresh comes first"
        root = topic.paths.table(self._snapshot.folder)

        async def groups_of(file: TableFile) -> list[tuple[int, int]]:
            try:
                reader = await SegmentReader(topic.store, root, file).open()
                bounds = [reader.bounds(group, "offset") for group in range(reader.row_groups)]
            except (DataDamaged, ForeignObject, ObjectMissing):
                return []  # the task that reads it tells
            return [(first, last + 1) for first, last in bounds]

        return dict(zip([file.path for file in files], await asyncio.gather(*map(groups_of, files)), strict=True))

    def resolve(self, places: QueuePositions, standing: TopicSnapshot, *, fail_on_data_loss: bool) -> ResumePosition:
        """The offsets of these places, as of ``standing``. Raises `OffsetOutOfRange`, and `InvalidArgument` for an unknown queue."""
        unknown = sorted(set(places.named) - set(standing.kept))
        if unknown:
            raise InvalidArgument(
                f"the topic has no queue {', '.join(map(str, unknown))}",
                operation="read",
                object=self._name,
                expected=f"0 to {len(standing.kept) - 1}",
            )
        times = {place for place in (places.default, *places.named.values()) if isinstance(place, datetime)}
        at_times = {time: self.resolve_time(time) for time in times}

        def offset(queue: int, place: Place) -> int:
            if isinstance(place, datetime):
                return at_times[place][queue]
            if isinstance(place, int):
                return place
            return standing.kept[queue][0 if place == "earliest" else 1]

        wanted = {queue: offset(queue, places.named.get(queue, places.default)) for queue in standing.kept}
        return within(standing, wanted, fail_on_data_loss=fail_on_data_loss)

    def resolve_time(self, time: datetime) -> dict[int, int]:
        topic = self._topic
        assert topic is not None, "refresh comes first"
        return self.opened.run(lambda: Reader(topic).resolve(time))

    async def _planned_schema(self) -> PlannedSchema | None:
        topic = await self.opened.lake.topic(self._name)
        await topic.tail.catch_up()
        return planned_schema(await self.opened.lake.topic(self._name))

    async def _refresh(self) -> TopicSnapshot:
        while True:
            topic = await self.opened.lake.topic(self._name)
            if self._rows is None or topic is not self._topic:
                self._topic, self._rows = topic, MergedRows(topic, asyncio.Event())
            try:
                self._snapshot = await self._rows.refresh()
            except TopicDeleted:
                if topic is await self.opened.lake.topic(self._name):
                    raise
                continue  # another topic of the name was created meanwhile
            state = topic.tail.state
            kept = {queue: (self._snapshot.start(queue), state.next_offset(queue)) for queue in range(topic.settings.queues)}
            named = {name: row.last for name, row in state.named.items()}
            return TopicSnapshot(self._name, topic.life, kept, state.entry, named, state.growths)
