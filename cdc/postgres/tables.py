"""The tables of a database, and the obstacles to capturing one: its rows have to be identified, readable, and the same in the
stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...log.errors import InvalidArgument, PermissionDenied
from .errors import load_psycopg

if TYPE_CHECKING:
    from psycopg.sql import Composed

_SYSTEM = "('pg_catalog', 'information_schema', 'pg_toast')"
_IDENTITIES = {"d": "DEFAULT", "i": "INDEX", "f": "FULL", "n": "NOTHING"}
_EXPECTED_KEY = "a primary key, or REPLICA IDENTITY USING INDEX of a unique index"


def key_of(table: str, index: str) -> str:
    return f"""
    (SELECT array_agg(a.attname::text ORDER BY k.place)
     FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place), pg_attribute a
     WHERE i.indrelid = {table}.oid AND a.attrelid = i.indrelid AND a.attnum = k.number AND k.place <= i.indnkeyatts AND {index})"""  # noqa: S608


_USABLE = "i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL"
"""An index that the server takes as an identity; in others a value may repeat, at least within a transaction."""


def identity_of(table: str) -> str:
    return f"{_USABLE} AND CASE {table}.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END"


IS_TABLE = f"c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname NOT IN {_SYSTEM} AND n.nspname NOT LIKE 'pg\\_%'"
"""SQL for whether the relation ``c`` in the schema ``n`` has its changes in the log, and is not the server's own."""

TABLES = f"""
SELECT n.nspname, c.relname, c.relreplident::text,
    has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'), {key_of("c", identity_of("c"))},
    c.relkind = 'p', row_security_active(c.oid), {key_of("c", "i.indisprimary")},
    (SELECT array_agg(a.attname::text) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE {IS_TABLE} AND NOT c.relispartition
ORDER BY 1, 2
"""  # noqa: S608 - of constants
"""The rows of `table_of`."""

LEAVES = f"""
SELECT n.nspname, c.relname, ln.nspname, l.relname, l.relkind::text, l.relpersistence::text, l.relreplident::text,
    {key_of("l", identity_of("l"))},
    (SELECT x.relname::text FROM pg_index i, pg_partition_tree(i.indexrelid) t, pg_index j, pg_class x
     WHERE i.indrelid = c.oid AND {identity_of("c")} AND j.indexrelid = t.relid AND j.indrelid = l.oid AND x.oid = t.relid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN pg_partition_tree(c.oid) p
    JOIN pg_class l ON l.oid = p.relid JOIN pg_namespace ln ON ln.oid = l.relnamespace
WHERE {IS_TABLE} AND c.relkind = 'p' AND NOT c.relispartition AND p.isleaf AND l.relkind <> 'p'
ORDER BY 1, 2, 3, 4
"""  # noqa: S608 - of constants
"""The partitions with rows: their tables' names, and the input of `leaf_of`."""

OTHER_RELATION = """
SELECT c.relkind::text, c.relpersistence::text, c.relispartition, rn.nspname, r.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_class r ON c.relispartition AND r.oid = pg_partition_root(c.oid) LEFT JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE n.nspname || '.' || c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') ORDER BY c.oid LIMIT 1
"""
"""The relation of a name that is no capturable table, for `no_table`."""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence"}


@dataclass(frozen=True, slots=True)
class LeafPartition:
    """A partition with rows."""

    schema: str
    name: str
    kind: str
    persistence: str
    identity: str
    key: tuple[str, ...]
    index: str | None
    """Its part of the index that is the table's identity."""

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the database."""

    schema: str
    name: str
    identity: str
    readable: bool
    key: tuple[str, ...]
    """The columns that identify rows in changes, in the index's order; with REPLICA IDENTITY FULL, the primary key. Empty:
    none.
    """
    partitioned: bool = False
    secured: bool = False
    primary: tuple[str, ...] = ()
    """The primary key's columns, even if it is no identity for the server."""
    generated: tuple[str, ...] = ()
    """The columns that the stream lacks."""
    leaves: tuple[LeafPartition, ...] = ()

    @property
    def named(self) -> tuple[str, str]:
        return self.schema, self.name

    @property
    def qualified(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


def table_of(row: Sequence[Any]) -> SourceTable:
    schema, name, identity, readable, key, partitioned, secured, primary, generated = row
    return SourceTable(
        schema,
        name,
        identity,
        readable,
        tuple(key or ()) if identity != "n" else (),
        partitioned=partitioned,
        secured=secured,
        primary=tuple(primary or ()),
        generated=tuple(generated or ()),
    )


def with_leaves(table: SourceTable, rows: Sequence[Sequence[Any]]) -> SourceTable:
    if not table.partitioned:
        return table
    found = [
        LeafPartition(schema, name, kind, persistence, identity, tuple(key or ()) if identity != "n" else (), index)
        for of, its, schema, name, kind, persistence, identity, key, index in rows
        if (of, its) == (table.schema, table.name)
    ]
    return replace(table, leaves=tuple(found))


def check_table(table: SourceTable, user: str) -> None:
    """Raise `InvalidArgument` or `PermissionDenied` unless the table's rows can be identified, and read as the stream has them."""
    if not table.key:
        raise _no_key(table)
    if made := [name for name in table.key if name in table.generated]:
        raise InvalidArgument(
            "the table's key has a generated column, which the stream does not tell",
            operation="capture",
            object=table.qualified,
            expected=f"{_EXPECTED_KEY}, of columns that are stored as they are given",
            observed=", ".join(made),
            hint="make such a unique index and ALTER TABLE … REPLICA IDENTITY USING INDEX it, or name the tables to capture: --table",
        )
    if not table.readable:
        raise PermissionDenied(
            "the user may not read the table",
            operation="capture",
            object=table.qualified,
            hint=f"GRANT USAGE ON SCHEMA {quoted(table.schema)} TO {quoted(user)}; GRANT SELECT ON {table.quoted} TO {quoted(user)}",
        )
    if table.secured:
        raise PermissionDenied(
            "row security hides rows of the table from this user, and the stream tells all of them",
            operation="capture",
            object=table.qualified,
            expected="a user whom no policy of the table concerns",
            hint=f"as a superuser: ALTER ROLE {quoted(user)} BYPASSRLS; or capture other tables: --table",
        )
    for leaf in table.leaves:
        _check_leaf(table, leaf)


def _no_key(table: SourceTable) -> InvalidArgument:
    hint = "add one, or name the tables to capture: --table"
    observed = f"REPLICA IDENTITY {_IDENTITIES[table.identity]}"
    if table.primary and table.identity in "ni":
        hint = f"ALTER TABLE {table.quoted} REPLICA IDENTITY DEFAULT, or name the tables to capture: --table"
    elif table.primary:  # it is deferrable: the server refuses every update of a published table with such an identity
        observed += " of a primary key that is deferrable"
        hint = "a unique index that is not, and REPLICA IDENTITY USING INDEX it, or name the tables to capture: --table"
        if not table.partitioned:
            index = quoted(f"{table.name[:40]}_identity")
            hint = (
                f"CREATE UNIQUE INDEX {index} ON {table.quoted} ({', '.join(map(quoted, table.primary))}); ALTER TABLE {table.quoted}"
                f" REPLICA IDENTITY USING INDEX {index}; values may then not be double within a transaction either"
            )
    return InvalidArgument(
        "the table has no key, so nothing tells its rows apart",
        operation="capture",
        object=table.qualified,
        expected=_EXPECTED_KEY,
        observed=observed,
        hint=hint,
    )


def _check_leaf(table: SourceTable, leaf: LeafPartition) -> None:
    """Check a partition, whose changes are written under its own identity and sent under its table's."""
    detach = f"or ALTER TABLE {table.quoted} DETACH PARTITION {leaf.quoted}"
    if leaf.kind == "f":
        message, hint = "a partition is a foreign table, whose changes are in no log of this server", detach.removeprefix("or ")
    elif leaf.persistence != "p":
        message, hint = (
            "a partition is unlogged, so its changes are not in the log",
            f"ALTER TABLE {leaf.quoted} SET LOGGED, {detach}",
        )
    elif leaf.identity != "f" and sorted(leaf.key) != sorted(table.key):
        message = "a partition has another replica identity than its table"
        to = "DEFAULT" if table.identity in "df" else f"USING INDEX {quoted(leaf.index or '')}"
        hint = f"ALTER TABLE {leaf.quoted} REPLICA IDENTITY {to}, {detach}"
    else:
        return
    raise InvalidArgument(
        message,
        operation="capture",
        object=f"{leaf.schema}.{leaf.name}",
        expected=f"what {table.qualified} has: the key {', '.join(table.key)}",
        observed=f"REPLICA IDENTITY {_IDENTITIES[leaf.identity]}, {', '.join(leaf.key) or 'no key'}" if leaf.kind != "f" else None,
        hint=hint,
    )


def no_table(name: str, found: Sequence[Any] | None, publication: str) -> InvalidArgument | None:
    """The error for a name of something else (a row of `OTHER_RELATION`), if there is one."""
    if found is None:
        return None
    kind, persistence, is_partition, root_schema, root = found
    if is_partition:
        return InvalidArgument(
            "a partition is captured as a part of its table",
            operation="capture",
            object=name,
            expected=f"{root_schema}.{root}",
            hint=f"--table {root_schema}.{root}; where the publication tells partitions one by one:"
            f" ALTER PUBLICATION {quoted(publication)} SET (publish_via_partition_root = true)",
        )
    observed = _KINDS.get(kind, "an unlogged table" if persistence == "u" else "a temporary table" if persistence == "t" else None)
    if observed is None:
        return None
    hint = f"ALTER TABLE {'.'.join(map(quoted, name.split('.', 1)))} SET LOGGED" if observed == "an unlogged table" else None
    return InvalidArgument(
        "its changes are not in the server's log",
        operation="capture",
        object=name,
        expected="an ordinary or a partitioned table",
        observed=observed,
        hint=hint or "name the tables to capture: --table",
    )


def own_rows(schema: str, name: str) -> Composed:
    """SQL for a table's own rows, without those of inheriting tables; with those of partitions."""
    sql = load_psycopg().sql
    made: Composed = sql.SQL("(tableoid = {0}::regclass OR (SELECT relkind = 'p' FROM pg_class WHERE oid = {0}::regclass))").format(
        sql.Literal(f"{quoted(schema)}.{quoted(name)}")
    )
    return made


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
