"""Queries of tables, and their names in SQL and in the connector's properties; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .converters import UNREAL

TABLES_QUERY = (
    "SELECT table_schema, table_name FROM information_schema.tables"
    " WHERE CONCAT(table_schema, '.', table_name) = ? AND table_type <> 'VIEW'"
)
DATABASES_QUERY = (
    "SELECT schema_name FROM information_schema.schemata WHERE LEFT(?, CHAR_LENGTH(schema_name) + 1) = CONCAT(schema_name, '.')"
)
COLUMNS_QUERY = "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position"
KEY_QUERY = (
    "SELECT column_name FROM information_schema.key_column_usage WHERE table_schema = ? AND table_name = ? AND constraint_name = 'PRIMARY'"
    " ORDER BY ordinal_position"
)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a primary key."""

    name: str
    resumable: bool
    """Whether SQL takes an event's value as it is. Text is not such: its order is its collation's."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a table, also one that ``SELECT *`` leaves out."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table's present form."""

    database: str
    name: str
    columns: tuple[SourceColumn, ...] = ()
    """Empty: there is no such table."""
    key: tuple[KeyColumn, ...] = ()


_TABLE_ID = re.compile(r"table_id: (?P<id>\d+)(?: \((?P<table>.*)\))?", re.DOTALL)


def table_behind(events: Iterable[Sequence[str | None]], pos: int) -> str | None:
    """The table, ``database.table``, of the first event of rows after a position, from a file's SHOW BINLOG EVENTS."""
    tables: dict[str, str] = {}
    for _, place, _, _, _, said in events:
        if (found := _TABLE_ID.match(said or "")) is None:
            continue
        if found["table"] is not None:
            tables[found["id"]] = found["table"]
        elif int(place or 0) >= pos:
            return tables.get(found["id"])
    return None


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quoted_table(table: ServerTable) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def pattern_of(name: str) -> str:
    """The pattern of one name, in the connector's comma-separated lists."""
    return re.escape(name).replace(",", r"\x2c")


def rows_query(table: ServerTable, after: Sequence[int | str] | None) -> str:
    """The query for a table's rows in key order, perhaps after a key."""
    key = ", ".join(f"r.{quoted(column.name)}" for column in table.key)
    words = ["SELECT", ", ".join(map(_read, table.columns)) or "*", "FROM", quoted_table(table), "AS r"]
    if after is not None:
        words += ["WHERE", f"({key}) > ({', '.join(map(str, after))})"]
    if key:
        words += ["ORDER BY", key]
    return " ".join(words)


def characters_query(charset: str) -> str:
    digits = " UNION ALL ".join(f"SELECT {digit} AS n" for digit in range(16))
    numbers = " CROSS JOIN ".join(f"({digits}) AS d{place}" for place in range(4))
    number = " + ".join(f"d{place}.n * {16**place}" for place in range(4))
    converted = f"CONVERT(CHAR({number} USING ucs2) USING {charset})"
    return (
        f"SELECT HEX({converted}), {converted} FROM {numbers}"  # noqa: S608 - of numbers, and a name that the connector knows
        f" WHERE {number} > 0 AND NOT {number} BETWEEN {0xD800} AND {0xDFFF}"
    )


def _read(column: SourceColumn) -> str:
    """A column, in the form that driver and connector have for the binlog."""
    name = f"r.{quoted(column.name)}"
    if (said := _as_told(name, column.kind)) == name:
        return name
    return f"{said} AS {quoted(column.name)}"


def _as_told(name: str, kind: str) -> str:
    # Of a date with zeros the binlog's reader tells nothing. As text the others come as they are: days that are none too, which end the reading.
    zeros = f"YEAR({name}) * MONTH({name}) * DAYOFMONTH({name}) = 0"
    text = f"CAST({name} AS CHAR)"
    match kind:
        case "uuid" | "inet4" | "inet6":
            return text  # the connector does not know the driver's value
        case "float":
            return f"CAST({name} AS DOUBLE)"  # as text it has six digits
        case "year":
            return text  # of 0000 the driver makes another year
        case "date":
            return f"IF({zeros}, NULL, {text})"
        case "datetime":
            # Java's calendar leaves out ten days, at which Pope Gregory's began.
            unreal = f"{name} >= '1582-10-05' AND {name} < '1582-10-15' OR DAYOFMONTH({name}) > DAYOFMONTH(LAST_DAY({name}))"
            return f"IF({zeros}, NULL, IF({unreal}, CONCAT('{UNREAL}', {name}), {text}))"
        case "timestamp":
            return f"IF({name} = 0, NULL, {name})"
        case _:
            return name
