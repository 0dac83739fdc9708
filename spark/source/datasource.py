"""The data source ``penstock``, as Spark finds it by the module ``pyspark_penstock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from ...log.errors import InvalidArgument
from ..errors import Legible
from ..produce.sink import BatchSink, batch_sink
from ..versions import STREAM_LIMITS, STREAM_SINK, has, require
from .batch import BatchReader
from .options import SourceOptions, parse
from .schema import ddl
from .stream import TopicStream
from .unbounded_stream import UnboundedStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ..produce.stream_sink import StreamSink


class PenstockDataSource(DataSource):
    """Topics of a lake: ``spark.readStream.format("penstock").option("lake", url).load("orders")``; docs/spark-source.md has the options."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock"

    @Legible()
    def schema(self) -> str:
        """The columns of `MESSAGE_SCHEMA`, or those that the option ``columns`` names. All options are checked here."""
        return ddl(parse(self.options, stream=None).columns)

    @Legible()
    def reader(self, schema: StructType) -> BatchReader:
        """The reader of a batch."""
        options = parse(self.options, stream=False)
        _check_schema(schema, options)
        return BatchReader(options)

    @Legible()
    def streamReader(self, schema: StructType) -> TopicStream:  # noqa: N802 - Spark's name
        """The reader of a stream."""
        options = parse(self.options, stream=True)
        _check_schema(schema, options)
        return stream_reader(options)

    @Legible()
    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """The writer of a batch."""
        return batch_sink(self.options, schema, overwrite=overwrite)

    @Legible()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802
        """The writer of a stream."""
        require(STREAM_SINK, "write a stream")
        from ..produce.stream_sink import stream_sink

        return stream_sink(self.options, schema)


def stream_reader(options: SourceOptions, release: str = pyspark.__version__) -> TopicStream:
    """The reader of a stream for a version of Spark."""
    if not has(STREAM_LIMITS, release):
        return UnboundedStreamReader(options, release)
    from .bounded_stream import StreamReader  # it needs a module that older ones lack

    return StreamReader(options)


def _check_schema(schema: StructType, options: SourceOptions) -> None:
    if tuple(schema.fieldNames()) != options.columns:
        raise InvalidArgument(
            "the schema is not the source's",
            operation="read",
            object=options.topic,
            expected=ddl(options.columns),
            observed=schema.simpleString(),
            hint='leave .schema(…) out; .option("columns", "offset, body") reads some columns only',
        )
