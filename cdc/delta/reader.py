"""Reading Delta tables without Spark, by deltalake's own engine.

That engine knows column mapping and deletion vectors. deltalake's datasets (`to_pyarrow_table`, `to_pyarrow_dataset`, `to_pandas`) show NULL in
mapped columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .location import Location

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

ALL = "select * from t"
_OF_DELTA = "delta."


def open_table(location: Location, version: int | None = None) -> DeltaTable | None:
    """Raises deltalake's errors."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(location.root, version=version, storage_options=dict(location.options) or None)
    except TableNotFoundError:
        return None


def query(table: DeltaTable, sql: str = ALL) -> pa.RecordBatchReader:
    """The result of a query in this version of a table, called ``t``. Errors are of any kind."""
    import pyarrow as pa
    from deltalake import QueryBuilder

    return pa.RecordBatchReader.from_stream(QueryBuilder().register("t", table).execute(sql))


def schema_of(table: DeltaTable) -> pa.Schema:
    """The columns in Arrow's types, by the names that users see."""
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def plain_schema_of(table: DeltaTable) -> pa.Schema:
    """`schema_of` without Delta's own notes on columns: a copy of the rows has other files."""
    import pyarrow as pa

    return pa.schema([_without_notes(one) for one in schema_of(table)])


def rows_of(table: DeltaTable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows in the types of a schema: the engine has its own for text and bytes."""
    import pyarrow as pa

    for batch in query(table):
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def _without_notes(field: pa.Field) -> pa.Field:
    kept = {name: said for name, said in (field.metadata or {}).items() if not name.decode().startswith(_OF_DELTA)}
    return field.with_metadata(kept or None)
