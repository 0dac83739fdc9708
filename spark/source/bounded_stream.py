"""``spark.readStream.format("penstock")`` since Spark 4.2, which passes a batch's begin and ``availableNow`` to a source."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ...consumers.ranges.admission import admitted, held_back, in_whole_groups
from ...consumers.ranges.offsets import QueuePositions, StreamOffset, continued
from ..errors import CleanTraceback
from .options import SparkSourceOptions
from .stream import TopicStream


class StreamReader(TopicStream, SupportsTriggerAvailableNow):
    """The reader with bounded micro-batches. Its start depends on the trigger unless named."""

    def __init__(self, options: SparkSourceOptions) -> None:
        super().__init__(options)
        self._cap: StreamOffset | None = None
        """The end of a query with `Trigger.AvailableNow`."""

    @CleanTraceback()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """A query that ends with what is stored begins at the earliest by default."""
        to_the_end = self._cap is not None and not self._options.start_given
        return self._begun(QueuePositions("earliest") if to_the_end else self._options.start).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @CleanTraceback()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the batch from ``start``; ``start`` when there is nothing new."""
        standing = self._refreshed()
        begin = StreamOffset.from_json(start)
        self._report(begin)
        if self._cap is not None and self._cap.life != standing.life:
            return start
        moved = self._told(continued(standing, begin, fail_on_data_loss=self._options.fail_on_data_loss))
        end = self._cap or standing.end
        available = {queue: (first, max(first, end.of(queue))) for queue, first in moved.queues.items()}
        available = held_back(available, standing.growths)
        unlimited = isinstance(limit, ReadAllAvailable)
        rows_max = None if unlimited else self._options.max_offsets_per_trigger
        bytes_max = None if unlimited else self._options.max_bytes_per_trigger
        sizes = self._view.sizes(available)
        ends = admitted(available, rows_max=rows_max, bytes_max=bytes_max, sizes=sizes)
        if groups := self._view.groups_at(available, ends):
            ends = in_whole_groups(available, ends, groups, rows_max=rows_max, bytes_max=bytes_max, sizes=sizes)
        if all(ends[queue] == first for queue, (first, _) in available.items()):
            return start
        return StreamOffset(standing.life, ends).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of all that was stored when the last batch was planned."""
        return None if self._standing is None else self._standing.end.to_json()

    @CleanTraceback()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query."""
        self._cap = self._refreshed().end
