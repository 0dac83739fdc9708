"""The data source ``penstock``, as Spark finds it by the module ``pyspark_penstock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from ...log.errors import InvalidArgument
from ..errors import Legible
from ..produce.sink import BatchSink, StreamSink, batch_sink, stream_sink
from .batch import BatchReader
from .options import SourceOptions, parse
from .schema import ddl
from .stream import StreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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
    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """The reader of a stream."""
        options = parse(self.options, stream=True)
        _check_schema(schema, options)
        return StreamReader(options)

    @Legible()
    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """The writer of a batch."""
        return batch_sink(self.options, schema, overwrite=overwrite)

    @Legible()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802
        """The writer of a stream."""
        return stream_sink(self.options, schema)


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
