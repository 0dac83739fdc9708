"""A capture's SQL queries: checks of the server, its tables, the publication and the slot."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...log.errors import InvalidArgument, NotSupported, PenstockError, PermissionDenied
from .catalog_tables import LOCKED, CatalogTable, Name, catalog_table_of, tables_query
from .errors import SlotInUse, load_psycopg, slot_lost, translated
from .pgoutput import RelationColumn
from .positions import lsn_of, lsn_text
from .query_watch import QueryWatch, watched
from .tables import LEAVES, OTHER_RELATION, TABLES, SourceTable, check_table, no_table, quoted, table_of, with_leaves
from .typed_events import CatalogColumn
from .values import PostgresType
from .visibility import VisibleTransactions

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.abc import QueryNoTemplate
    from psycopg.sql import Composed

VERSION_MIN = 130000
SETTINGS = "-c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=3 -c timezone=UTC -c bytea_output=hex"
"""The settings for values' text, the same for snapshots and the stream."""
_NAMES = "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"
_SESSION = "format('%%s %%s, pid %%s, %%s', usename, coalesce(nullif(application_name, ''), '(unnamed)'), pid, coalesce(wait_event, state))"
"""SQL for a session of pg_stat_activity, for people."""
_READING = f"{SETTINGS} -c row_security=off -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
"""The settings for reading: never fewer rows, and to the end, whatever the role's settings."""


@dataclass(frozen=True, slots=True)
class ReplicationSlot:
    """An existing replication slot."""

    confirmed_lsn: int
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class TableSelection:
    """The tables that names stand for."""

    tables: list[SourceTable]
    problems: dict[Name, PenstockError]
    missing: dict[str, PenstockError]


class Catalog:
    """One connection for queries, reopened after a loss."""

    def __init__(self, dsn: str, now_s: Callable[[], float] | None = None) -> None:
        """``now_s``: the clock of the watch over long queries; None: no watch."""
        self._dsn = dsn
        self.watch = None if now_s is None else QueryWatch(now_s, self._blockers)
        self._open: Connection[Any] | None = None
        self._server_version: int | None = None

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def connect(self) -> Connection[Any]:
        """A separate connection with the settings for values. Raises `SourceUnavailable`, `PermissionDenied`."""
        psycopg = load_psycopg()
        with translated("connect", self.where):
            connection: Connection[Any] = (psycopg.Connection if self.watch is None else watched(self.watch)).connect(
                self._dsn, autocommit=True, options=_READING, client_encoding="UTF8", application_name="penstock capture"
            )
            if connection.info.server_version >= 140000:
                # Otherwise a session that waits outlives a capture that was killed. Not every system can tell that its client is gone.
                with suppress(psycopg.errors.InvalidParameterValue):
                    connection.execute("SET client_connection_check_interval = '2s'")
        return connection

    def _blockers(self, pid: int) -> list[str]:
        """The sessions and prepared transactions that block a session, for people, by another connection."""
        with closing(Catalog(self._dsn)) as other:
            rows = other.ask(
                f"SELECT {_SESSION} FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids(%(pid)s))"  # noqa: S608 - of constants
                " UNION ALL SELECT format('prepared transaction %%L', gid) FROM pg_prepared_xacts WHERE 0 = ANY (pg_blocking_pids(%(pid)s))",
                pid=pid,
            )
        return [row[0] for row in rows]

    @property
    def where(self) -> str:
        """The server and its database, for people, without a password."""
        psycopg = load_psycopg()
        try:
            parts = psycopg.conninfo.conninfo_to_dict(self._dsn)
        except psycopg.Error as error:
            raise InvalidArgument(
                "this names no PostgreSQL",
                operation="capture",
                expected="postgresql://user@host:5432/database, or 'host=… dbname=… user=…'",
                observed=str(error).strip().splitlines()[0].partition('"')[0].strip(),
            ) from None
        host = parts.get("host") or parts.get("hostaddr") or "localhost"
        return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or parts.get('user') or ''}"

    def ask(self, query: QueryNoTemplate, *values: object, **named: object) -> list[tuple[Any, ...]]:
        connection = self._connected()
        with translated("query", self.where):
            cursor = connection.execute(query, named or values or None)
            return cursor.fetchall() if cursor.description is not None else []

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        if self.watch is None:
            yield
            return
        before, self.watch.doing = self.watch.doing, what
        try:
            yield
        finally:
            self.watch.doing = before

    def _connected(self) -> Connection[Any]:
        if self._open is not None and self._open.closed:  # so are broken ones
            self.close()
        if self._open is None:
            self._open, self._server_version = self.connect(), None
        return self._open

    def copy_row(self, query: Composed) -> tuple[str | None, ...] | None:
        """The only row of a ``COPY … TO STDOUT`` in a `reading`, as the stream writes values; None without one, also after a
        change of the key's type.
        """
        errors = load_psycopg().errors
        with translated("read again", self.where):
            try:
                with self._connected().cursor().copy(query) as copy:
                    rows = list(copy.rows())
            except (
                errors.InvalidTextRepresentation,
                errors.NumericValueOutOfRange,
                errors.InvalidDatetimeFormat,
                errors.DatetimeFieldOverflow,
            ):
                return None
        return rows[0] if rows else None

    @contextmanager
    def reading(self, schema: str, name: str, oid: int = 0) -> Iterator[tuple[str, str, VisibleTransactions] | None]:
        """A transaction for reading a table: its names now, and the visible transactions; None: the table is gone. ``oid``
        finds it under any name, 0 by its name.
        """
        connection = self._connected()
        try:
            yield self._begun(connection, schema, name, oid)
        finally:
            if not connection.closed:
                with translated("read the table", self.where):
                    connection.execute("ROLLBACK")

    def _begun(self, connection: Connection[Any], schema: str, name: str, oid: int) -> tuple[str, str, VisibleTransactions] | None:
        found = begin_reading(connection, schema, name)
        if found is not None and oid in (0, found[0]):
            return schema, name, found[1]
        with translated("read the table", self.where):
            connection.execute("ROLLBACK")
        names = self.names_of(oid)
        found = None if names is None else begin_reading(connection, *names)
        return None if names is None or found is None or found[0] != oid else (*names, found[1])

    # --- Can it be captured? ----------------------------------------------------------------------------------------------------

    def check_server(self) -> None:
        """Raise `NotSupported`, `InvalidArgument` or `PermissionDenied` for a server that no capture can use. Read only."""
        [(version, named, level, standby, is_replicator)] = self.ask(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('wal_level'),"
            " pg_is_in_recovery(), bool_or(rolreplication OR rolsuper) FROM pg_roles WHERE pg_has_role(rolname, 'MEMBER')"
            " AND (rolname = current_user OR rolname IN ('rds_replication', 'rds_superuser', 'cloudsqlsuperuser'))"
        )
        if version < VERSION_MIN:
            raise NotSupported("this PostgreSQL is too old", object=self.where, expected="13 or newer", observed=named)
        if standby:
            raise NotSupported("this server is a standby", object=self.where, expected="the primary", observed="in recovery")
        if level != "logical":
            raise InvalidArgument(
                "the server does not write what logical decoding needs",
                operation="capture",
                object=self.where,
                expected="wal_level = logical",
                observed=f"wal_level = {level}",
                hint="ALTER SYSTEM SET wal_level = logical; then restart the server",
            )
        if not is_replicator:
            [(user,)] = self.ask("SELECT current_user")
            raise PermissionDenied(
                "the user may not replicate",
                operation="capture",
                object=self.where,
                expected=f"the attribute REPLICATION of {user}",
                hint=f'as a superuser: ALTER ROLE "{user}" REPLICATION',
            )

    def identity(self) -> tuple[str, str]:
        """The system's identifier, which a copy of the server shares, and the database."""
        [(system, database)] = self.ask("SELECT system_identifier::text, current_database() FROM pg_control_system()")
        return system, database

    def current_lsn(self) -> int:
        [(lsn,)] = self.ask("SELECT pg_current_wal_lsn()::text")
        return lsn_of(lsn)

    def logged_lsn(self, room_bytes: int = 0) -> int:
        """A place in the log after all visible transactions, made by writing a message.

        The log's end is no such place: a transaction may be visible before it is written.
        """
        [(lsn,)] = self.ask("SELECT pg_logical_emit_message(true, 'penstock', repeat(' ', %s::int))::text", room_bytes)
        return lsn_of(lsn)

    # --- Tables -----------------------------------------------------------------------------------------------------------------

    def choose(self, names: Sequence[str | Name], publication: str) -> TableSelection:
        """The named tables (``schema.table``, or a table of `public`), or all, with errors for some: a table has to be
        readable, with a key that an existing publication publishes.
        """
        found = {table.named: table for table in map(table_of, self.ask(TABLES))}
        chosen = TableSelection([], {}, {})
        if not names and not found:
            raise InvalidArgument("the database has no tables", operation="capture", object=self.where)
        for name in dict.fromkeys(names or found):
            if isinstance(name, tuple) and name in found:
                chosen.tables.append(found[name])
                continue
            text = ".".join(name) if isinstance(name, tuple) else name if "." in name else f"public.{name}"
            try:
                chosen.tables.append(self._named(text, list(found.values()), publication))
            except InvalidArgument as error:
                chosen.missing[text] = error
        if any(table.partitioned for table in chosen.tables):
            leaves = self.ask(LEAVES)
            chosen.tables[:] = [with_leaves(table, leaves) for table in chosen.tables]
        [(user,)] = self.ask("SELECT current_user")
        for table in chosen.tables:
            try:
                check_table(table, user)
                self._check_columns(table, publication)
            except (InvalidArgument, PermissionDenied) as error:
                chosen.problems[table.named] = error
        return chosen

    def _check_columns(self, table: SourceTable, publication: str) -> None:
        """Raise `InvalidArgument` where the publication leaves out a key's column: rows would be indistinguishable."""
        names = self._published_columns(publication, table)[0]
        if names is not None and (missing := [name for name in table.key if name not in names]):
            raise InvalidArgument(
                "the publication leaves out columns of the table's key",
                operation="capture",
                object=table.qualified,
                expected=", ".join(table.key),
                observed=f"without {', '.join(missing)}",
                hint=f"ALTER PUBLICATION {quoted(publication)} DROP TABLE {table.quoted}; then ADD TABLE with these columns, too",
            )

    def _named(self, name: str, found: Sequence[SourceTable], publication: str) -> SourceTable:
        meant = [table for table in found if name in (table.qualified, table.quoted)]
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise InvalidArgument(
                "several tables have this name",
                operation="capture",
                object=name,
                observed=", ".join(table.quoted for table in meant),
                hint=f"name one as SQL does: --table '{meant[0].quoted}'",
            )
        others = self.ask(OTHER_RELATION, name)
        if (error := no_table(name, others[0] if others else None, publication)) is not None:
            raise error
        near = difflib.get_close_matches(name, [table.qualified for table in found], n=1)
        raise InvalidArgument(
            "there is no such table",
            operation="capture",
            object=name,
            observed=f"{len(found)} tables in {self.where}",
            hint=f"did you mean {near[0]}?" if near else "name it with its schema: --table schema.table",
        )

    def lives(self, publication: str, oids: Sequence[int] | None = None) -> list[CatalogTable]:
        query = tables_query(self._version()).encode()
        return [catalog_table_of(row) for row in self.ask(query, publication=publication, oids=None if oids is None else [*oids])]

    def names_of(self, oid: int) -> Name | None:
        found = self.ask(_NAMES, oid)
        return (found[0][0], found[0][1]) if found else None

    def is_locked(self, oids: Sequence[int]) -> bool:
        """Whether an open or invisible transaction may change what one of the tables is."""
        return bool(self.ask(LOCKED, oids=[*oids]))

    def describe_type(self, oid: int) -> PostgresType | None:
        rows = self.ask(  # some types have elements and are written as no array is, such as int2vector and point
            "SELECT t.typbasetype, CASE WHEN t.typoutput = 'pg_catalog.array_out'::regproc THEN t.typelem ELSE 0 END,"
            " coalesce(e.typdelim, ',')::text, t.typtypmod FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE t.oid = %s",
            oid,
        )
        return PostgresType(oid, *rows[0]) if rows else None

    def columns(self, publication: str, table: SourceTable) -> tuple[list[RelationColumn], str | None]:
        """A table's published columns, and the filter of its rows."""
        names, where = self._published_columns(publication, table)
        columns = self.ask(
            "SELECT attname::text, atttypid::int8, atttypmod FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
            " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            table.quoted,
        )
        found = [
            RelationColumn(name, oid, name in table.key, modifier)
            for name, oid, modifier in columns
            if names is None or name in names
        ]
        return found, where

    def _published_columns(self, publication: str, table: SourceTable) -> tuple[list[str] | None, str | None]:
        """The columns that a publication names of a table, and the filter of its rows; None: all."""
        later = self._version() >= 150000
        found = self.ask(
            f"SELECT {'attnames::text[], rowfilter' if later else 'NULL::text[], NULL::text'} FROM pg_publication_tables"  # noqa: S608
            " WHERE pubname = %s AND schemaname = %s AND tablename = %s",
            publication,
            table.schema,
            table.name,
        )
        names, where = found[0] if found else (None, None)
        return names, where

    def column_names(self, schema: str, table: str) -> list[str]:
        rows = self.ask(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            f"{quoted(schema)}.{quoted(table)}",
        )
        return [name for (name,) in rows]

    def typed_columns(self, schema: str, table: str) -> list[CatalogColumn]:
        rows = self.ask(
            "SELECT column_name::text, data_type::text, numeric_precision::int, numeric_scale::int FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
            schema,
            table,
        )
        return [CatalogColumn(*row) for row in rows]

    def _version(self) -> int:
        if self._server_version is None:
            [(version,)] = self.ask("SELECT current_setting('server_version_num')::int")
            self._server_version = int(version)
        return self._server_version

    # --- Publication and slot ---------------------------------------------------------------------------------------------------

    def published(self, publication: str) -> list[Name] | None:
        """The tables of a publication; None if it does not exist. Raises `InvalidArgument` for one that leaves changes out."""
        rows = self.ask(
            "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s", publication
        )
        if not rows:
            return None
        if not rows[0][0]:
            raise InvalidArgument(
                "the publication leaves changes out",
                operation="capture",
                object=publication,
                expected="insert, update, delete, truncate",
                hint=f"ALTER PUBLICATION {quoted(publication)} SET (publish = 'insert, update, delete, truncate')",
            )
        tables = self.ask("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2", publication)
        return [(schema, table) for schema, table in tables]

    def check_roots(self, publication: str, table: SourceTable) -> None:
        """Raise `InvalidArgument` for a publication that names this table's partitions themselves."""
        if self.ask("SELECT 1 FROM pg_publication WHERE pubname = %s AND NOT pubviaroot", publication):
            raise InvalidArgument(
                "the publication tells partitions one by one, and a partition is captured as a part of its table",
                operation="capture",
                object=table.qualified,
                expected="publish_via_partition_root = true",
                hint=f"ALTER PUBLICATION {quoted(publication)} SET (publish_via_partition_root = true)",
            )

    def publish(self, publication: str, tables: Sequence[SourceTable], *, add: bool) -> None:
        """Create the publication of these tables, or add them to it. Raises `PermissionDenied`, with the owner's remedy."""
        # A table's children are tables of their own: a key is not inherited, and the server refuses updates of published tables without one.
        listed = ", ".join(f"ONLY {table.quoted}" for table in tables)
        statement = (
            f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {listed}"
            if add
            else f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {listed} WITH (publish_via_partition_root = true)"
        )
        try:
            self.ask(statement.encode())
        except PermissionDenied as error:
            error.message = "the user may not publish these tables"
            error.hint = f"let their owner run: {statement}"
            raise

    def slot(self, name: str) -> ReplicationSlot | None:
        """The slot, if it exists. Raises `InvalidArgument` for one of another kind or database."""
        rows = self.ask(
            "SELECT plugin::text, database = current_database(), wal_status, confirmed_flush_lsn::text, active_pid"
            " FROM pg_replication_slots WHERE slot_name = %s",
            name,
        )
        if not rows:
            return None
        plugin, is_ours, status, confirmed, pid = rows[0]
        if plugin != "pgoutput" or not is_ours:
            raise InvalidArgument(
                "the slot serves something else",
                operation="capture",
                object=name,
                expected="plugin pgoutput, this database",
                observed=f"plugin {plugin}{'' if is_ours else ', another database'}",
                hint="name another: --slot",
            )
        if confirmed is None and pid is not None:
            raise SlotInUse(
                "another process makes the slot, and waits for transactions that began before",
                operation="capture",
                object=name,
                observed=f"pid {pid}",
                hint=f"if it is left over, end it: SELECT pg_terminate_backend({pid})",
            )
        return ReplicationSlot(lsn_of(confirmed or "0/0"), is_lost=status == "lost")

    def has_slot(self, name: str) -> bool:
        return bool(self.ask("SELECT FROM pg_replication_slots WHERE slot_name = %s", name))

    def create_slot(self, name: str) -> ReplicationSlot:
        """Create the slot. It waits for open transactions, and has all that commit later."""
        with self._doing("the slot is made"):
            [(lsn,)] = self.ask("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", name)
        return ReplicationSlot(lsn_of(lsn))

    def drop_slot(self, name: str) -> None:
        self.ask("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", name)

    def newest_transaction(self) -> int:
        [(number,)] = self.ask("SELECT pg_current_xact_id()::text::int8")
        return int(number)

    def visible(self) -> VisibleTransactions:
        [(text,)] = self.ask("SELECT pg_current_snapshot()::text")
        return VisibleTransactions.read(text)

    def writers(self, before: int) -> list[str]:
        """The sessions and prepared transactions with invisible transactions older than ``before``, for people."""
        rows = self.ask(
            f"SELECT {_SESSION}"  # noqa: S608 - of constants
            " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND age(backend_xid) >= age(%(before)s::text::xid)"
            " UNION ALL SELECT format('prepared transaction %%L', gid) FROM pg_prepared_xacts WHERE age(transaction) >= age(%(before)s::text::xid)",
            before=before % 2**32,
        )
        return [row[0] for row in rows]


def begin_reading(connection: Connection[Any], schema: str, name: str) -> tuple[int, VisibleTransactions] | None:
    """Begin a transaction that reads a table; its OID and the visible transactions, or None without the table.

    The lock comes before the snapshot: a table rewritten in between would be empty.
    """
    psycopg = load_psycopg()
    named = f"{quoted(schema)}.{quoted(name)}"
    with translated("read the table", named):
        # This takes none of a read-write transaction's locks.
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            connection.execute(f"LOCK TABLE {named} IN ACCESS SHARE MODE".encode())
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return None
        found = connection.execute("SELECT %s::regclass::oid::int8, pg_current_snapshot()::text", (named,)).fetchone()
    assert found is not None, "a SELECT without FROM has one row"
    return found[0], VisibleTransactions.read(found[1])


def check_history(catalog: Catalog, slot: str, *, last_position: int, place_of: Callable[[int], int]) -> None:
    """Raise `SlotLost` when the topic has later events than the server's log: the server was set back."""
    current = catalog.current_lsn()
    if place_of(last_position) > current:
        raise slot_lost(
            slot, f"the topic has changes up to {lsn_text(place_of(last_position))}, the server is at {lsn_text(current)}"
        )
