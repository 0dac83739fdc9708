"""``spark.readStream.format("penstock")`` in Spark 4.0 and 4.1, which pass neither the trigger nor a batch's begin to a source."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import InputPartition

from ...consumers.ranges.admission import held_back
from ...consumers.ranges.offsets import StreamOffset, continued
from ..errors import CleanTraceback
from ..versions import STREAM_LIMITS, STREAM_TRIGGER, require
from .options import SparkSourceOptions
from .stream import TopicStream


class UnboundedStreamReader(TopicStream):
    """The reader whose triggers take all that is stored. Unknown places must be named."""

    def __init__(self, options: SparkSourceOptions, release: str) -> None:
        if options.max_offsets_per_trigger is not None or options.max_bytes_per_trigger is not None:
            require(STREAM_LIMITS, "read a stream", release)
        super().__init__(options)
        self._release = release
        self._reached: StreamOffset | None = None
        """The end of the last batch; None after a restart, until Spark plans a batch."""

    @CleanTraceback()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if not self._options.start_given:
            require(STREAM_TRIGGER, "read a stream", self._release)
        self._reached = self._begun(self._options.start)
        return self._reached.to_json()

    @CleanTraceback()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as these versions call it
        standing = self._refreshed()
        if self._reached is None:
            return standing.end.to_json()
        self._report(self._reached)
        moved = self._told(continued(standing, self._reached, fail_on_data_loss=self._options.fail_on_data_loss))
        available = {queue: (first, max(first, standing.end.queues[queue])) for queue, first in moved.queues.items()}
        ends = {queue: limit for queue, (_, limit) in held_back(available, standing.growths).items()}
        if ends == moved.queues:
            return self._reached.to_json()
        return StreamOffset(standing.life, ends).to_json()

    @CleanTraceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        # Spark tells that a batch was committed when it plans the next one, so a query with `availableNow` ends before it tells of the last.
        self._report(StreamOffset.from_json(start))
        found = super().partitions(start, end)
        self._reached = StreamOffset.from_json(end)
        return found
