"""``format("penstock")`` as a sink of streams, since Spark 4.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import xxhash
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from .sink import SinkOptions, TaskCommitMessage, TopicSink, parse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class StreamSink(DataSourceStreamArrowWriter):
    """``df.writeStream.format("penstock")``: each micro-batch becomes visible at once, and is there once."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._sink = TopicSink.planned(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        """Stage a task's rows. All tasks of a batch agree on its job."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark runs tasks in a context"
        query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
        run = context.getLocalProperty("spark.jobGroup.id")
        # Another run writes the batch under another job: the former job may have been linked, or given up.
        job = xxhash.xxh3_128_hexdigest(f"{query}/{run}/{batch}".encode())
        return self._sink.stage(iterator, query=query, job=job)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Link the rows, on the driver, again with the same number if it died."""
        self._sink.link(messages, batch=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: Spark calls it after a commit of unknown outcome, too. The collector removes leftovers."""


def stream_sink(options: Mapping[str, str], schema: StructType) -> StreamSink:
    return StreamSink(parse(options), schema)
