"""``spark.readStream.format("penstock")``: the driver's side of a stream."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ...consumers.ranges.admission import admitted
from ...consumers.ranges.mirror import GroupMirror
from ...consumers.ranges.offsets import Moved, Places, StreamOffset, TopicSnapshot, continued
from ...consumers.ranges.task import read
from ...consumers.ranges.topic_view import TopicView
from ..errors import Legible
from .options import SourceOptions
from .planning import Partition, partitions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("penstock.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as its query, in one process beside the driver. Spark pickles a fresh one for the executors, which only `read`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view = TopicView(options.place, options.topic)
        self._mirror = None if options.group is None else GroupMirror(self._view, options.topic, options.group)
        self._standing: TopicSnapshot | None = None
        self._cap: StreamOffset | None = None
        """Where a query with `Trigger.AvailableNow` ends."""

    @Legible()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins. A query that ends with what is stored begins at the earliest unless told otherwise:
        from the latest it would read nothing.
        """
        standing = self._refreshed()
        start = self._options.start
        if self._cap is not None and not self._options.start_given:
            start = Places("earliest")
        begin = self._told(self._view.resolve(start, standing, fail_on_data_loss=self._options.fail_on_data_loss))
        if not self._options.start_given and begin.queues == standing.end.queues:
            self._tell_of_what_is_passed_over(standing)
        return StreamOffset(standing.life, begin.queues).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much a trigger takes; `latestOffset` itself keeps a second limit."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @Legible()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch, which begins at ``start``, ends; ``start`` when there is nothing new."""
        standing = self._refreshed()
        begin = StreamOffset.from_json(start)
        self._report(begin)
        if self._cap is not None and self._cap.life != standing.life:
            return start
        moved = self._told(continued(standing, begin, fail_on_data_loss=self._options.fail_on_data_loss))
        end = (self._cap or standing.end).queues
        available = {queue: (first, max(first, end[queue])) for queue, first in moved.queues.items()}
        unlimited = isinstance(limit, ReadAllAvailable)
        ends = admitted(
            available,
            rows_max=None if unlimited else self._options.max_offsets_per_trigger,
            bytes_max=None if unlimited else self._options.max_bytes_per_trigger,
            sizes=self._view.sizes(available),
        )
        if all(ends[queue] == first for queue, (first, _) in available.items()):
            return start
        return StreamOffset(standing.life, ends).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of all that was stored when the last batch was planned, for the query's progress."""
        return None if self._standing is None else self._standing.end.to_json()

    @Legible()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query: messages stored later do not count."""
        self._cap = self._refreshed().end

    @Legible()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch, or of the same batch again after a restart."""
        # The topic was looked at a moment ago, when the batch was planned; after a restart it was planned by another process.
        standing = self._standing or self._refreshed()
        begin, stop = StreamOffset.from_json(start), StreamOffset.from_json(end)
        replaced = stop.life != standing.life
        moved = self._told(continued(standing, stop if replaced else begin, fail_on_data_loss=self._options.fail_on_data_loss))
        if replaced:
            return []  # the messages that the batch was to read are gone with the former topic
        ranges = {queue: (first, max(first, stop.of(queue))) for queue, first in moved.queues.items()}
        return list(partitions(self._options, standing.life, ranges, self._view.sizes(ranges)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, on an executor."""
        assert isinstance(partition, Partition)
        with Legible():
            yield from read(partition.task)

    @Legible()
    def commit(self, end: dict[str, Any]) -> None:
        """Note that all before ``end`` was processed."""
        self._report(StreamOffset.from_json(end))

    def _tell_of_what_is_passed_over(self, standing: TopicSnapshot) -> None:
        stored = sum(following - earliest for earliest, following in standing.kept.values())
        if stored:
            log.warning(
                "%s: the stream begins at the latest offset, behind %d messages that are stored; startingOffsets=earliest reads them",
                self._options.topic,
                stored,
            )

    def _refreshed(self) -> TopicSnapshot:
        self._standing = self._view.refresh()
        return self._standing

    def _report(self, reached: StreamOffset) -> None:
        if self._mirror is not None:
            self._mirror.report(reached)

    def _told(self, moved: Moved) -> Moved:
        for loss in moved.losses:
            log.warning("%s: %s", self._options.topic, loss)
        return moved
