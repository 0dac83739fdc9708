"""``spark.read.format("penstock")``: a range of a topic, by offsets or store times, as of the query's planning."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...consumers.ranges.task import read
from ...consumers.ranges.topic_view import TopicView
from ..errors import CleanTraceback
from .options import SparkSourceOptions
from .partitions import Partition, partitions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("penstock.spark")


class BatchReader(DataSourceReader):
    """Plans in a process beside the driver, and reads in executors.

    No conditions (``pushFilters``): Spark keeps a reader's plan with the loaded DataFrame, so one query's ``where`` would hold for
    all others (docs/0009).
    """

    def __init__(self, options: SparkSourceOptions) -> None:
        self._options = options

    @CleanTraceback()
    def partitions(self) -> list[InputPartition]:
        """Messages stored later are not read."""
        options = self._options
        view = TopicView(options.place, options.topic)
        standing = view.refresh()
        start = view.resolve(options.start, standing, fail_on_data_loss=options.fail_on_data_loss)
        end = view.resolve(options.end, standing, fail_on_data_loss=options.fail_on_data_loss)
        for loss in (*start.losses, *end.losses):
            log.warning("%s: %s", options.topic, loss)
        ranges = {queue: (first, max(first, end.queues[queue])) for queue, first in start.queues.items()}
        # Spark makes an empty partition when there is none, and has it read.
        return list(partitions(options, standing.life, ranges, view.sizes(ranges))) or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Partition):
            with CleanTraceback():
                yield from read(partition.task)
