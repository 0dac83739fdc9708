"""``spark.readStream.format("penstock")``: the driver's side of a stream, for every version of Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...consumers.ranges.mirror import GroupMirror
from ...consumers.ranges.offsets import QueuePositions, ResumePosition, StreamOffset, TopicSnapshot, continued
from ...consumers.ranges.task import read
from ...consumers.ranges.topic_view import TopicView
from ..errors import CleanTraceback
from .options import SparkSourceOptions
from .partitions import Partition, partitions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("penstock.spark")


class TopicStream(DataSourceStreamReader):
    """The common part of readers. A reader lives as long as its query; executors get a fresh one, which only `read`."""

    def __init__(self, options: SparkSourceOptions) -> None:
        self._options = options
        self._view = TopicView(options.place, options.topic)
        self._mirror = None if options.group is None else GroupMirror(self._view, options.topic, options.group)
        self._standing: TopicSnapshot | None = None

    @CleanTraceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
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
        assert isinstance(partition, Partition)
        with CleanTraceback():
            yield from read(partition.task)

    @CleanTraceback()
    def commit(self, end: dict[str, Any]) -> None:
        """All before ``end`` was processed."""
        self._report(StreamOffset.from_json(end))

    def _tell_of_what_is_passed_over(self, standing: TopicSnapshot) -> None:
        stored = sum(following - earliest for earliest, following in standing.kept.values())
        if stored:
            log.warning(
                "%s: the stream begins at the latest offset, behind %d messages that are stored; startingOffsets=earliest reads them",
                self._options.topic,
                stored,
            )

    def _begun(self, start: QueuePositions) -> StreamOffset:
        standing = self._refreshed()
        begin = self._told(self._view.resolve(start, standing, fail_on_data_loss=self._options.fail_on_data_loss))
        if not self._options.start_given and begin.queues == standing.end.queues:
            self._tell_of_what_is_passed_over(standing)
        return StreamOffset(standing.life, begin.queues)

    def _refreshed(self) -> TopicSnapshot:
        self._standing = self._view.refresh()
        return self._standing

    def _report(self, reached: StreamOffset) -> None:
        if self._mirror is not None:
            self._mirror.report(reached)

    def _told(self, moved: ResumePosition) -> ResumePosition:
        for loss in moved.losses:
            log.warning("%s: %s", self._options.topic, loss)
        return moved
