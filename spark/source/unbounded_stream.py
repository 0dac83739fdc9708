"""``spark.readStream.format("penstock")`` in Spark 4.0 and 4.1, which tell a source neither the trigger nor where a batch begins."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import InputPartition

from ...consumers.ranges.offsets import StreamOffset, continued
from ..errors import CleanTraceback
from ..versions import STREAM_LIMITS, STREAM_TRIGGER, require
from .options import SparkSourceOptions
from .stream import TopicStream


class UnboundedStreamReader(TopicStream):
    """The reader whose triggers take all that is stored. What it cannot know must be named, or is refused."""

    def __init__(self, options: SparkSourceOptions, release: str) -> None:
        if options.max_offsets_per_trigger is not None or options.max_bytes_per_trigger is not None:
            require(STREAM_LIMITS, "read a stream", release)
        super().__init__(options)
        self._release = release
        self._reached: StreamOffset | None = None
        """Where the last batch ended; None for a query that goes on from its checkpoint, until Spark plans a batch."""

    @CleanTraceback()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        if not self._options.start_given:
            require(STREAM_TRIGGER, "read a stream", self._release)
        self._reached = self._begun(self._options.start)
        return self._reached.to_json()

    @CleanTraceback()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as these versions call it
        """Where the next batch ends: behind all that is stored, or where the last one ended when there is nothing new."""
        standing = self._refreshed()
        if self._reached is None:
            return standing.end.to_json()
        self._report(self._reached)
        moved = self._told(continued(standing, self._reached, fail_on_data_loss=self._options.fail_on_data_loss))
        ends = {queue: max(first, standing.end.queues[queue]) for queue, first in moved.queues.items()}
        if ends == moved.queues:
            return self._reached.to_json()
        return StreamOffset(standing.life, ends).to_json()

    @CleanTraceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch, or of the same batch again after a restart."""
        # Spark tells that a batch was committed when it plans the next one, so a query with `availableNow` ends before it tells of the last.
        self._report(StreamOffset.from_json(start))
        found = super().partitions(start, end)
        self._reached = StreamOffset.from_json(end)
        return found
