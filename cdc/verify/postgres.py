"""Tables of a PostgreSQL, all as of one moment, with values as a capture would write them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from ...log.errors import InvalidArgument
from ..events.conversion import exact_json
from ..postgres.catalog import Catalog
from ..postgres.column_types import BYTEA, TIMESTAMP, TIMESTAMPTZ
from ..postgres.errors import load_psycopg, translated
from ..postgres.tables import IS_TABLE
from ..postgres.values import Convert, TypeConversions
from .dumps import csv_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection, Copy
    from psycopg.sql import Composed

_COLUMNS = f"""
    SELECT n.nspname, c.relname, c.relkind = 'p', a.attname, a.atttypid::int8, coalesce(a.attnum = ANY (i.indkey), false)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE {IS_TABLE} AND NOT c.relispartition
    ORDER BY n.nspname, c.relname, a.attnum
"""  # noqa: S608 - of constants
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_ISO = "regexp_replace({0}::text, '^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}) (?!.*BC$)', '\\1T')"
"""Infinity, years before Christ and of more digits stay."""
_SPELT = {
    BYTEA: "translate(encode({0}, 'base64'), E'\\n', '')",
    TIMESTAMPTZ: f"regexp_replace({_ISO}, '[+]00$', 'Z')",
    TIMESTAMP: _ISO,
}
"""The SQL of values that a capture writes differently from PostgreSQL."""


@dataclass(frozen=True)
class PostgresRows:
    """One table."""

    schema: str
    table: str
    types: Mapping[str, str]
    key: tuple[str, ...]
    connection: Connection[Any]
    where: str
    arrays: Mapping[str, Convert] = field(default_factory=dict)
    partitioned: bool = False

    @property
    def name(self) -> str:
        return self.table

    def columns(self) -> Sequence[str]:
        return list(self.types)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, as text. Raises `SourceUnavailable`, `PermissionDenied`."""
        names = [name for name in self.types if columns is None or name in columns]
        with translated("compare", self.where), self.connection.cursor().copy(self._query(names)) as copy:
            file = cast("BinaryIO", io.BufferedReader(_CopiedBytes(copy)))
            for batch in csv_batches(file, f"{self.schema}.{self.table}", names):
                yield self._with_arrays(batch)

    def _with_arrays(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        for place, name in enumerate(batch.schema.names):
            if (convert := self.arrays.get(name)) is not None:
                texts = batch.column(place).to_pylist()
                made = [None if text is None else _json(convert(text)) for text in texts]
                batch = batch.set_column(place, name, pa.array(made, pa.string()))
        return batch

    def _query(self, names: Sequence[str]) -> Composed:
        sql = load_psycopg().sql
        selected = [sql.SQL(self.types[name] + " AS {0}").format(sql.Identifier(name)) for name in names]
        query: Composed = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT csv, HEADER)").format(
            sql.SQL(", ").join(selected), sql.SQL("" if self.partitioned else "ONLY "), sql.Identifier(self.schema, self.table)
        )
        return query


@contextmanager
def open_tables(dsn: str, tables: Sequence[str] = ()) -> Iterator[list[PostgresRows]]:
    """The tables of a database, or those named ``table`` or ``schema.table``, all as of one moment as long as the block runs.

    Raises `InvalidArgument` for a missing one, `SourceUnavailable`, `PermissionDenied`, `MissingDependency` without psycopg.
    """
    catalog = Catalog(dsn)
    psycopg = load_psycopg()
    with closing(catalog), catalog.connect() as connection:
        connection.autocommit = False
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with translated("compare", catalog.where):
            found = connection.execute(_COLUMNS).fetchall()
        by_table: dict[tuple[str, str, bool], list[tuple[Any, ...]]] = {}
        for schema, table, partitioned, *column in found:
            by_table.setdefault((schema, table, partitioned), []).append(tuple(column))
        wanted = {
            one: columns for one, columns in by_table.items() if not tables or one[1] in tables or f"{one[0]}.{one[1]}" in tables
        }
        missing = [name for name in tables if not any(name in (table, f"{schema}.{table}") for schema, table, _ in wanted)]
        if missing or not wanted:
            raise InvalidArgument(
                "there is no such table", operation="compare", object=catalog.where, expected=", ".join(missing) or "a table"
            )
        conversions = TypeConversions(catalog.describe_type)
        yield [
            PostgresRows(
                schema,
                table,
                {name: _SPELT.get(conversions.base_of(type_oid), "{0}") for name, type_oid, _ in columns},
                tuple(name for name, _, in_key in columns if in_key),
                connection,
                catalog.where,
                {name: conversions.of(type_oid).convert for name, type_oid, _ in columns if conversions.is_array(type_oid)},
                partitioned,
            )
            for (schema, table, partitioned), columns in wanted.items()
        ]


def _json(array: object) -> str:
    return exact_json(_decode(msgspec.json.encode(array)))


class _CopiedBytes(io.RawIOBase):
    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - anything to write to
        if not self._rest:
            self._rest = memoryview(bytes(self._copy.read()))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
