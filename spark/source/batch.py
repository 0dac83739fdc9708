"""``spark.read.format("penstock")``: a range of a topic, by offsets or store times, as it stands when the query is planned."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ...log.tags import TagFilter
from .filters import Narrowing
from .legible import Legible
from .options import SourceOptions
from .planning import Partition, partitions
from .task import read
from .topic_view import TopicView

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("penstock.spark")

_OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=",
    In: "in",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
_NEVER_NULL = {"queue", "offset", "store_timestamp"}
_WORKER_THAT_PUSHES = "pyspark.sql.worker.data_source_pushdown_filters"


class BatchReader(DataSourceReader):
    """Plans in a process beside the driver, reads in those of executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    @Legible()
    def partitions(self) -> list[InputPartition]:
        """The tasks. What is stored later is not read."""
        options = self._options
        view = TopicView(options.place, options.topic)
        standing = view.refresh()
        start = view.resolve(options.start, standing, fail_on_data_loss=options.fail_on_data_loss)
        end = view.resolve(options.end, standing, fail_on_data_loss=options.fail_on_data_loss)
        for loss in (*start.losses, *end.losses):
            log.warning("%s: %s", options.topic, loss)
        narrowing = self._narrowing
        ranges = narrowing.apply(
            {queue: (first, end.queues[queue]) for queue, first in start.queues.items()},
            {} if narrowing.stored_from is None else view.resolve_time(narrowing.stored_from),
            {} if narrowing.stored_to is None else view.resolve_time(narrowing.stored_to + timedelta(microseconds=1)),
        )
        if narrowing.tags is not None:
            tags = narrowing.tags if options.keep.tags is None else narrowing.tags & options.keep.tags
            options = replace(options, keep=TagFilter(tags))
        # Spark makes a partition of nothing out of no partition, and has it read.
        return list(partitions(options, standing.life, ranges, view.sizes(ranges))) or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, on an executor."""
        if isinstance(partition, Partition):
            with Legible():
                yield from read(partition.task)


class PushingReader(BatchReader):
    """One that is told the query's conditions, so that only the queues, offsets and tags are read that it asks for."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what says which rows to read; give back what Spark must still check."""
        for condition in filters:
            if not self._take(condition):
                yield condition

    def _take(self, condition: Filter) -> bool:
        """Whether nothing is left to check of a condition."""
        path: tuple[str, ...] = getattr(condition, "attribute", ())
        if len(path) != 1:
            return False
        if isinstance(condition, IsNotNull):
            return path[0] in _NEVER_NULL
        operator = _OPERATORS.get(type(condition))
        if operator is None:
            return False
        narrowed = self._narrowing.narrowed(path[0], operator, getattr(condition, "value", None))
        if narrowed is not None:
            self._narrowing = narrowed
        return narrowed is not None


def batch_reader(options: SourceOptions) -> BatchReader:
    """The reader that fits the process: Spark refuses one that takes filters unless the session's conf lets it, and asks for filters only in
    a worker of their own then; that this is it, is the only sign of the conf here.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    pushes = _WORKER_THAT_PUSHES in sys.modules or (main is not None and main.name == _WORKER_THAT_PUSHES)
    return PushingReader(options) if pushes else BatchReader(options)
