"""A session of a PostgreSQL: what it sees, and what it does to rows."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count

import psycopg
from psycopg import sql

from tests.cdc.ddl.history import Row, Table
from tests.cdc.ddl.postgres_rows import LARGE, LARGE_WIDE, ROWS_OF, WIDE

Name = tuple[str, str]
"""Schema and table."""
PUBLICATION = "penstock"
LOCK_TIMEOUT = "-c lock_timeout=300ms"
"""One thread plays all sessions: none waits for another one for ever."""

FIXED = ("parts", "parent", "child", "typed", "owner", "referrer")
"""What the names of tables begin with that stay."""

OWN = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
_CAPTURED = f"""
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE {OWN} AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
    AND (EXISTS (SELECT FROM pg_publication WHERE puballtables) OR c.oid IN (SELECT prrelid FROM pg_publication_rel)
        OR n.oid IN (SELECT pnnspid FROM pg_publication_namespace))
    AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate
        AND (i.indisreplident OR (i.indisprimary AND c.relreplident IN ('d', 'f'))))"""
_COLUMNS = """
SELECT n.nspname, c.relname, array_agg(a.attname ORDER BY a.attname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p') GROUP BY 1, 2"""
_LOCKED = """
SELECT n.nspname, c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE l.mode = 'AccessExclusiveLock' AND l.granted AND (l.pid IS NULL OR l.pid = %s)"""


@dataclass
class Making:
    """What all sessions share."""

    dsn: str
    chance: random.Random
    publication: str
    """Of what the publication is: of `all` tables, of `tables` that it names, or of a `schema`."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def number(self) -> int:
        return next(self._numbers)


class Session:
    """One connection. ``keys``: those of the rows that it changes; one that ``stays`` open changes no others, which others would wait for."""

    def __init__(self, making: Making, keys: range, *, stays: bool = False) -> None:
        self.making, self.chance, self._keys, self._stays = making, making.chance, keys, stays
        self.connection = psycopg.connect(making.dsn, autocommit=False, options=LOCK_TIMEOUT)
        self.avoided: Collection[Name] = ()
        """Tables that another session has for itself."""
        self._columns: dict[Name, list[str]] | None = None
        self._captured: dict[str, Name] | None = None

    def do(self, statement: str) -> None:
        """Anything that may change tables themselves."""
        self.forget()
        self.connection.execute(statement.encode())

    def forget(self) -> None:
        """Ask the catalogue again."""
        self._columns = self._captured = None

    def ask(self, query: str, *values: object) -> list[tuple[str, ...]]:
        return self.connection.execute(query.encode(), values or None).fetchall()

    # --- What there is --------------------------------------------------------------------------------------------------------------

    def captured(self) -> dict[str, Name]:
        """The tables that a capture should have now, by the names of their targets."""
        if self._captured is None:
            self._captured = {f"{schema}_{name}": (schema, name) for schema, name in self.ask(_CAPTURED)}
        return self._captured

    def columns(self) -> dict[Name, list[str]]:
        if self._columns is None:
            self._columns = {(row[0], row[1]): list(row[2]) for row in self.ask(_COLUMNS)}
        return self._columns

    def locked(self, pid: int) -> set[Name]:
        """The tables that another session, or a prepared transaction, has for itself."""
        return {(schema, name) for schema, name in self.ask(_LOCKED, pid)}

    def table(self, schema: str, name: str) -> Table:
        """All rows of a table as they are now."""
        columns = self.columns()[schema, name]
        only = "" if name == "parts" else "ONLY "
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("SELECT {} FROM {}{}").format(names, sql.SQL(only), sql.Identifier(schema, name))
        rows: frozenset[Row] = frozenset(tuple(zip(columns, row, strict=True)) for row in self.connection.execute(query))
        return Table(rows, tuple(columns))

    def key(self, table: Name) -> str | None:
        """The column by which its rows are drawn."""
        return next((one for one in ROWS_OF if one in self.columns()[table]), None)

    def some(self) -> Name:
        """A table with which anything may be done."""
        found = [
            one
            for one in self.captured().values()
            if self.key(one) == "id" and not one[1].startswith(FIXED) and one not in self.avoided
        ]
        return self.chance.choice(sorted(found)) if found else self.new()

    def new(self) -> Name:
        name = f"made{self.making.number()}"
        self.do(f'CREATE TABLE public."{name}" (id int PRIMARY KEY, a text, n bigint)')
        self.do(f"INSERT INTO public.\"{name}\" SELECT g, 'new', g FROM generate_series(1, 10) g")
        self.publish("public", name)
        return "public", name

    def publish(self, schema: str, name: str) -> None:
        if self.making.publication == "tables":
            self.do(f'ALTER PUBLICATION "{PUBLICATION}" ADD TABLE ONLY "{schema}"."{name}"')

    # --- Rows -----------------------------------------------------------------------------------------------------------------------

    def change_rows(self) -> None:
        """One statement on the rows of one table."""
        tables = sorted(one for one in self.captured().values() if self.key(one) is not None and one not in self.avoided)
        table = self.chance.choice(tables)
        statements = list(ROWS_OF[self.key(table) or "id"])
        if "id" in self.columns()[table] and not self._stays:
            statements += WIDE
        if "big" in self.columns()[table]:
            statements += [LARGE, LARGE] if self._stays else [LARGE, LARGE, LARGE_WIDE, LARGE_WIDE]
        self.run(self.chance.choice(statements), *table)

    def run(self, statement: str, schema: str, name: str) -> None:
        values = {
            "k": self.chance.choice(self._keys),
            "n": self.chance.randrange(10**6),
            "s": f"s{self.chance.randrange(1000)}",
        }
        self.connection.execute(statement.format(t=f'"{schema}"."{name}"').encode(), values)
