"""Transactions of every kind against a PostgreSQL, drawn by chance: rows, keys, large values, and the tables themselves."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from tests.cdc.ddl.history import Row, Table
from tests.cdc.ddl.source import Note
from tests.postgres_server import PostgresServer, find_postgres
from tests.servers import die_with_parent

START = """
CREATE SCHEMA other;
CREATE TABLE plain (id int PRIMARY KEY, a text, n bigint, big text);
ALTER TABLE plain ALTER big SET STORAGE EXTERNAL;
CREATE TABLE whole (id int PRIMARY KEY, a text, n bigint, big text);
ALTER TABLE whole ALTER big SET STORAGE EXTERNAL;
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE pair (k text, l int, a text, n bigint, PRIMARY KEY (k, l));
CREATE TABLE indexed (code text NOT NULL, a text, n bigint);
CREATE UNIQUE INDEX indexed_code ON indexed (code);
ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_code;
CREATE TABLE parts (id int PRIMARY KEY, a text, n bigint, big text) PARTITION BY RANGE (id);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (40);
CREATE TABLE parts_mid PARTITION OF parts FOR VALUES FROM (40) TO (80);
CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (80) TO (MAXVALUE);
CREATE TABLE parent (id int PRIMARY KEY, a text, n bigint);
CREATE TABLE child (extra int, PRIMARY KEY (id)) INHERITS (parent);
CREATE TABLE other.away (id int PRIMARY KEY, a text, n bigint);
INSERT INTO plain SELECT g, 'p' || g, g, repeat(md5(g::text), 90) FROM generate_series(1, 30) g;
INSERT INTO whole SELECT g, 'w' || g, g, repeat(md5(g::text), 90) FROM generate_series(1, 30) g;
INSERT INTO pair SELECT 'k' || g / 3, g % 3, 'x', g FROM generate_series(1, 30) g;
INSERT INTO indexed SELECT 'c' || g, 'i', g FROM generate_series(1, 30) g;
INSERT INTO parts SELECT g * 4, 'q' || g, g, repeat(md5(g::text), 90) FROM generate_series(1, 30) g;
INSERT INTO parent SELECT g, 'parent', g FROM generate_series(1, 20) g;
INSERT INTO child SELECT g, 'child', g, g FROM generate_series(11, 30) g;
INSERT INTO other.away SELECT g, 'a', g FROM generate_series(1, 20) g;
"""
KEYS = 120
PUBLICATION = "penstock"

ROWS_OF: dict[str, list[str]] = {
    "id": [
        "INSERT INTO {t} (id, a, n) VALUES (%(k)s, %(s)s, %(n)s) ON CONFLICT (id) DO UPDATE SET a = %(s)s",
        "UPDATE {t} SET n = n + 1 WHERE id BETWEEN %(k)s AND %(k)s + 5",
        "UPDATE {t} SET a = %(s)s WHERE id = %(k)s",
        "UPDATE {t} SET id = id + 500 WHERE id = %(k)s AND NOT EXISTS (SELECT FROM {t} o WHERE o.id = %(k)s + 500)",
        "UPDATE {t} SET id = id - 500 WHERE id > 500 AND NOT EXISTS (SELECT FROM {t} o WHERE o.id < 500)",
        "DELETE FROM {t} WHERE id = %(k)s OR id = %(k)s + 500",
        "DELETE FROM {t} WHERE id %% 37 = %(k)s %% 37",
    ],
    "k": [
        "INSERT INTO {t} (k, l, a, n) VALUES ('k' || %(k)s / 4, %(k)s %% 4, %(s)s, %(n)s) ON CONFLICT DO NOTHING",
        "UPDATE {t} SET n = n + 1, a = %(s)s WHERE k = 'k' || %(k)s / 4",
        "UPDATE {t} SET l = l + 10 WHERE k = 'k' || %(k)s / 4 AND l < 10",
        "DELETE FROM {t} WHERE k = 'k' || %(k)s / 4 AND l >= 10",
    ],
    "code": [
        "INSERT INTO {t} (code, a, n) VALUES ('c' || %(k)s, %(s)s, %(n)s) ON CONFLICT DO NOTHING",
        "UPDATE {t} SET code = code || '!', n = n + 1 WHERE code = 'c' || %(k)s",
        "UPDATE {t} SET a = NULL WHERE code = 'c' || %(k)s",
        "DELETE FROM {t} WHERE code LIKE 'c' || %(k)s || '%%'",
    ],
}
LARGE = [
    "UPDATE {t} SET big = repeat(md5(%(s)s), 90) WHERE id = %(k)s",
    "UPDATE {t} SET n = n + 1 WHERE big IS NOT NULL AND id %% 5 = %(k)s %% 5",
]


def lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


class Postgres:
    """One connection that makes all transactions, one after the other, and reads what they made."""

    producer, empties, rest = "postgres/penstock", False, 0.02
    refused: tuple[type[Exception], ...] = (
        psycopg.errors.IntegrityError,
        psycopg.errors.ObjectNotInPrerequisiteState,
        psycopg.errors.DuplicateObject,
    )

    def __init__(
        self, server: PostgresServer, chance: random.Random, folder: Path, *, listed: bool = False, slow: bool = False
    ) -> None:
        """``listed``: its publication is of named tables, into which and out of which tables go. ``slow``: as is its standby."""
        self._server, self._chance, self._folder, self._slow = server, chance, folder, slow
        self._publication = PUBLICATION if listed else None
        self.connection = psycopg.connect(server.dsn, autocommit=False)
        self._made = 0

    def capture(self) -> tuple[str, ...]:
        return ("postgres", self._server.dsn, "--publication", PUBLICATION)

    def environment(self) -> Mapping[str, str]:
        return {}

    def shown(self, found: pa.Table) -> pa.Table:
        return found

    def place_of(self, text: str) -> int:
        return lsn(text)

    def prepare(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute(START.encode())
            names = "plain, whole, pair, indexed, parts, ONLY parent, ONLY child, other.away"
            of = f"FOR TABLE {names}" if self._publication else "FOR ALL TABLES"
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} {of} WITH (publish_via_partition_root = true)".encode())

    def restart(self) -> None:
        self._server.restart(self._chance.choice((signal.SIGQUIT, signal.SIGINT)))
        self._reconnect()

    def _reconnect(self) -> None:
        self.connection.close()
        self.connection = psycopg.connect(self._server.dsn, autocommit=False)

    def rollback(self) -> None:
        self.connection.rollback()

    def finish(self, note: Note) -> None:
        """Nothing is left open."""

    def transact(self, note: Note) -> str:
        what = self.draw()
        (text,) = self.connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("0/0",)
        if self._chance.random() < 0.03:
            self.connection.rollback()
            return "rolled back"
        self.connection.commit()
        note(lsn(text))
        return what

    @contextmanager
    def beside(self) -> Iterator[None]:
        """A synchronous standby that takes the log late: what is committed is in the log before anybody sees it."""
        if not self._slow:
            yield
            return
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'slow'")
        self._server.restart(signal.SIGINT)
        self._reconnect()
        over = threading.Event()
        folder = self._folder / "received"
        folder.mkdir()

        def receive() -> None:
            while not over.is_set():
                command = [
                    str(find_postgres() / "pg_receivewal"),
                    "-D",
                    str(folder),
                    "-d",
                    f"{self._server.dsn}?application_name=slow",
                    "--synchronous",
                ]
                process = subprocess.Popen([*die_with_parent(), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while process.poll() is None and not over.wait(self._chance.random() / 4):
                    process.send_signal(signal.SIGSTOP)
                    over.wait(self._chance.random() / 3)
                    process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with psycopg.connect(self._server.dsn, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
                connection.execute("SELECT pg_reload_conf()")

    # --- What there is --------------------------------------------------------------------------------------------------------------

    def captured(self) -> dict[str, tuple[str, str]]:
        """The tables that a capture should have now, by the names of their targets."""
        listed = "" if self._publication is None else "AND c.oid IN (SELECT prrelid FROM pg_publication_rel)"
        query = f"""
        SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('public', 'other') AND c.relkind IN ('r', 'p') AND NOT c.relispartition {listed}
            AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate
                AND (i.indisreplident OR (i.indisprimary AND c.relreplident IN ('d', 'f'))))"""
        return {f"{schema}_{name}": (schema, name) for schema, name in self.connection.execute(query.encode())}

    def table(self, schema: str, name: str) -> Table:
        """All rows of a table as they are now."""
        columns = [
            one
            for (one,) in self.connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND attnum > 0"
                " AND NOT attisdropped ORDER BY attname",
                (schema, name),
            )
        ]
        (kind,) = self.connection.execute(
            "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(format('%%I.%%I', %s::text, %s::text))", (schema, name)
        ).fetchone() or ("r",)
        only = sql.SQL("" if kind == "p" else "ONLY ")
        query = sql.SQL("SELECT {} FROM {}{}").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), only, sql.Identifier(schema, name)
        )
        rows: frozenset[Row] = frozenset(tuple(zip(columns, row, strict=True)) for row in self.connection.execute(query))
        return Table(rows, tuple(columns))

    def tables(self) -> dict[str, Table]:
        found = {folder: self.table(*name) for folder, name in self.captured().items()}
        self.connection.rollback()
        return found

    # --- What is done ---------------------------------------------------------------------------------------------------------------

    def draw(self) -> str:
        """Do something, without a commit. Returns what it was."""
        if self._chance.random() < 0.06:
            kind = self._chance.choice(self.KINDS)
            kind(self)
            return kind.__name__
        for _ in range(self._chance.choice((1, 1, 1, 2, 5, 20))):
            self.change_rows()
        return "rows"

    def change_rows(self) -> None:
        """One statement on the rows of one table."""
        tables = [one for one in self.captured().values() if self._key(*one) is not None]
        schema, name = self._chance.choice(tables)
        key = self._key(schema, name)
        assert key is not None
        statements = list(ROWS_OF[key])
        if self._has(schema, name, "big"):
            statements += 2 * LARGE
        self._run(self._chance.choice(statements), schema, name)

    def _run(self, statement: str, schema: str, name: str) -> None:
        only = f'"{schema}"."{name}"'
        values = {
            "k": self._chance.randrange(KEYS),
            "n": self._chance.randrange(10**6),
            "s": f"s{self._chance.randrange(1000)}",
        }
        self.connection.execute(statement.format(t=only).replace("UPDATE ", "UPDATE ").encode(), values)

    def _key(self, schema: str, name: str) -> str | None:
        return next((one for one in ROWS_OF if self._has(schema, name, one)), None)

    def _has(self, schema: str, name: str, column: str) -> bool:
        query = "SELECT FROM information_schema.columns WHERE (table_schema, table_name, column_name) = (%s, %s, %s)"
        return self.connection.execute(query.encode(), (schema, name, column)).fetchone() is not None

    def _some(self, *, key: str = "id") -> tuple[str, str]:
        found = [
            one
            for one in self.captured().values()
            if self._key(*one) == key and not one[1].startswith(("parts", "parent", "child"))
        ]
        return self._chance.choice(sorted(found)) if found else self._new()

    def _new(self) -> tuple[str, str]:
        self._made += 1
        name = f"made{self._made}"
        self._do(f'CREATE TABLE public."{name}" (id int PRIMARY KEY, a text, n bigint)')
        self._do(f"INSERT INTO public.\"{name}\" SELECT g, 'new', g FROM generate_series(1, 10) g")
        self._publish("public", name)
        return "public", name

    def _publish(self, schema: str, name: str) -> None:
        if self._publication is not None:
            self._do(f'ALTER PUBLICATION "{self._publication}" ADD TABLE ONLY "{schema}"."{name}"')

    def _do(self, statement: str) -> None:
        self.connection.execute(statement.encode())

    def rename(self) -> None:
        schema, name = self._some()
        self._made += 1
        self._do(f'ALTER TABLE "{schema}"."{name}" RENAME TO "renamed{self._made}"')
        self._run(ROWS_OF["id"][1], schema, f"renamed{self._made}")

    def rename_and_make_anew(self) -> None:
        schema, name = self._some()
        self._made += 1
        self._do(f'ALTER TABLE "{schema}"."{name}" RENAME TO "renamed{self._made}"')
        self._do(f'CREATE TABLE "{schema}"."{name}" (id int PRIMARY KEY, a text, n bigint)')
        self._do(f'INSERT INTO "{schema}"."{name}" SELECT g, \'anew\', g FROM generate_series(1, 8) g')
        self._publish(schema, name)

    def drop_and_make_anew(self) -> None:
        schema, name = self._some()
        self._do(f'DROP TABLE "{schema}"."{name}"')
        self._do(f'CREATE TABLE "{schema}"."{name}" (id int PRIMARY KEY, n bigint, a text, more int)')
        self._do(f'INSERT INTO "{schema}"."{name}" SELECT g, g, \'again\', g FROM generate_series(3, 12) g')
        self._publish(schema, name)

    def drop(self) -> None:
        schema, name = self._some()
        if name != "plain":
            self._do(f'DROP TABLE "{schema}"."{name}"')

    def make(self) -> None:
        self._new()

    def move(self) -> None:
        schema, name = self._some()
        self._do(f'ALTER TABLE "{schema}"."{name}" SET SCHEMA {"other" if schema == "public" else "public"}')

    def truncate(self) -> None:
        schema, name = self._some()
        self._do(f'TRUNCATE "{schema}"."{name}"')

    def add_column(self) -> None:
        schema, name = self._some()
        self._made += 1
        self._do(f'ALTER TABLE "{schema}"."{name}" ADD c{self._made} int')
        self._do(f'UPDATE "{schema}"."{name}" SET c{self._made} = n WHERE id %% 2 = 0'.replace("%%", "%"))

    def drop_column(self) -> None:
        schema, name = self._some()
        added = self.connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE (table_schema, table_name) = (%s, %s) AND column_name LIKE 'c%%'",
            (schema, name),
        ).fetchone()
        if added is not None:
            self._do(f'ALTER TABLE "{schema}"."{name}" DROP "{added[0]}"')

    def change_identity(self) -> None:
        schema, name = self._some()
        self._do(f'ALTER TABLE "{schema}"."{name}" REPLICA IDENTITY {self._chance.choice(("FULL", "DEFAULT"))}')

    def key_anew(self) -> None:
        """A migration: without a key for a moment, in which a row comes."""
        schema, name = self._some()
        (constraint,) = self.connection.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND contype = 'p'",
            (schema, name),
        ).fetchone() or ("",)
        if constraint:
            self._do(f'ALTER TABLE "{schema}"."{name}" DROP CONSTRAINT "{constraint}"')
            self._do(
                f'INSERT INTO "{schema}"."{name}" (id, a) SELECT max(id) + 1, \'keyless\' FROM "{schema}"."{name}" HAVING max(id) IS NOT NULL'
            )
            self._do(f'ALTER TABLE "{schema}"."{name}" ADD PRIMARY KEY (id)')

    def out_of_publication(self) -> None:
        if self._publication is not None:
            schema, name = self._some()
            if name != "plain":
                self._do(f'ALTER PUBLICATION "{self._publication}" DROP TABLE ONLY "{schema}"."{name}"')

    def into_publication(self) -> None:
        """One that was taken out, and changed since."""
        if self._publication is not None:
            found = self.connection.execute(
                "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'other')"
                " AND c.relkind = 'r' AND NOT c.relispartition AND c.oid NOT IN (SELECT prrelid FROM pg_publication_rel)"
            ).fetchall()
            if found:
                schema, name = self._chance.choice(sorted(found))
                self._do(f'UPDATE "{schema}"."{name}" SET a = \'was out\', n = n + 1')
                self._publish(schema, name)

    def truncate_partition(self) -> None:
        self._do("TRUNCATE parts_mid")

    def detach_and_attach(self) -> None:
        self._do("ALTER TABLE parts DETACH PARTITION parts_mid")
        self._do("DROP TABLE parts_mid")
        self._do("CREATE TABLE parts_mid (id int PRIMARY KEY, a text, n bigint, big text)")
        self._do("INSERT INTO parts_mid SELECT g, 'attached', g FROM generate_series(40, 60) g")
        self._do("ALTER TABLE parts ATTACH PARTITION parts_mid FOR VALUES FROM (40) TO (80)")

    KINDS: tuple[Callable[[Any], None], ...] = (
        rename, rename_and_make_anew, drop_and_make_anew, drop, make, make, move, truncate, add_column, drop_column, change_identity,
        key_anew, out_of_publication, into_publication, truncate_partition, detach_and_attach,
    )  # fmt: skip
