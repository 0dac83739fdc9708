"""The data source ``penstock``, which Spark finds by the module ``pyspark_penstock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from ...consumers.ranges.planned_columns import PlannedSchema
from ...consumers.ranges.topic_view import TopicView
from ...log.errors import InvalidArgument
from ...log.read.projection import projection_of
from ..errors import CleanTraceback
from ..produce.sink import BatchSink, batch_sink
from ..versions import STREAM_LIMITS, STREAM_SINK, has, require
from .batch import BatchReader
from .options import SparkSourceOptions, parse
from .schema import ddl
from .stream import TopicStream
from .unbounded_stream import UnboundedStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ..produce.stream_sink import StreamSink


class PenstockDataSource(DataSource):
    """Topics of a lake: ``spark.readStream.format("penstock").option("lake", url).load("orders")``; docs/spark-source.md has the
    options.
    """

    _schema: tuple[PlannedSchema | None] | None = None
    """The topic's schema, once looked up; (None,): it has none."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    @CleanTraceback()
    def schema(self) -> str:
        """The columns of `MESSAGE_SCHEMA` and, of a typed topic, ``value``; or those of the option ``columns``. Checks all options."""
        options = self._planned(parse(self.options, stream=None))
        return ddl(options.columns, options.planned)

    def _planned(self, options: SparkSourceOptions) -> SparkSourceOptions:
        """The schema is looked up once, before Spark pickles this object."""
        if not options.may_read_fields:
            return options
        if self._schema is None:
            self._schema = (TopicView(options.place, options.topic).planned_schema(),)
        return options.with_schema(self._schema[0])

    @CleanTraceback()
    def reader(self, schema: StructType) -> BatchReader:
        options = self._planned(parse(self.options, stream=False))
        _check_schema(schema, options)
        return BatchReader(options)

    @CleanTraceback()
    def streamReader(self, schema: StructType) -> TopicStream:  # noqa: N802 - Spark's name
        options = self._planned(parse(self.options, stream=True))
        _check_schema(schema, options)
        return stream_reader(options)

    @CleanTraceback()
    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        return batch_sink(self.options, schema, overwrite=overwrite)

    @CleanTraceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802
        require(STREAM_SINK, "write a stream")
        from ..produce.stream_sink import stream_sink

        return stream_sink(self.options, schema)


def stream_reader(options: SparkSourceOptions, release: str = pyspark.__version__) -> TopicStream:
    if not has(STREAM_LIMITS, release):
        return UnboundedStreamReader(options, release)
    from .bounded_stream import StreamReader  # it needs a module that older ones lack

    return StreamReader(options)


def _check_schema(schema: StructType, options: SparkSourceOptions) -> None:
    shown = projection_of(list(options.columns), None if options.planned is None else options.planned.schema)
    if tuple(schema.fieldNames()) != shown.names:
        raise InvalidArgument(
            "the schema is not the source's",
            operation="read",
            object=options.topic,
            expected=ddl(options.columns, options.planned),
            observed=schema.simpleString(),
            hint='leave .schema(…) out; .option("columns", "offset, body") reads some columns only',
        )
