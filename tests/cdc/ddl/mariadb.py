"""Transactions of every kind against a MariaDB, drawn by chance: rows, keys, two phases, statements in the log, and the tables themselves."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pymysql

from penstock.cdc.debezium.positions import file_number
from tests.cdc.ddl.history import Row, Table
from tests.cdc.ddl.source import Note
from tests.cdc.debezium.commands import QUICK_JAVA
from tests.mariadb_server import PASSWORD, MariaDBServer
from tests.waiting import wait_until

KEYS = 120
_REFUSALS = (
    1050,  # a name that is there
    1205,  # a lock
    1213,  # a deadlock
    1364,  # a column of a key that it gives no value
    1402,  # nothing to commit
    1442,  # a table that its trigger changes
    1507,  # a partition that is not there, as it could not be made again
    1706,  # a key of a table that is joined with itself
)
_LOW, _MID, _HIGH = (
    f"PARTITION {name} VALUES LESS THAN {end}" for name, end in (("low", "(40)"), ("mid", "(80)"), ("high", "MAXVALUE"))
)
_IDS = "(id INT PRIMARY KEY, a VARCHAR(200), n BIGINT)"
_TEN = "WITH RECURSIVE g (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 10) SELECT"
_PARTS = f"PARTITION BY RANGE (id) ({_LOW}, {_MID}, {_HIGH})"
START = (
    "CREATE TABLE shop.plain (id INT PRIMARY KEY, a VARCHAR(200), n BIGINT, big MEDIUMTEXT)",
    "CREATE TABLE shop.pair (k VARCHAR(20), l INT, a TEXT, n BIGINT, PRIMARY KEY (k, l))",
    "CREATE TABLE shop.codes (code VARCHAR(60) PRIMARY KEY, a TEXT, n BIGINT)",
    f"CREATE TABLE shop.parts {_IDS} {_PARTS}",
    f"CREATE TABLE shop.swap {_IDS}",
    f"CREATE TABLE shop.aria {_IDS} ENGINE=Aria",
    f"CREATE TABLE shop.watched {_IDS}",
    f"CREATE TABLE shop.audit {_IDS}",
    "CREATE TABLE shop.loose (id INT, a TEXT, n BIGINT)",
    *(f"INSERT INTO shop.{name} (id, a, n) {_TEN} 7 * i, concat('{name}', i), i FROM g" for name in ("plain", "parts", "aria", "loose")),
    f"INSERT INTO shop.pair {_TEN} concat('k', i DIV 3), i MOD 3, 'x', i FROM g",
    f"INSERT INTO shop.codes {_TEN} concat('c', i), 'x', i FROM g",
    "CREATE TRIGGER shop.watching AFTER INSERT ON shop.watched FOR EACH ROW REPLACE INTO shop.audit VALUES (NEW.id, 'seen', NEW.n)",
)  # fmt: skip
FIXED = frozenset({"plain", "pair", "codes", "parts", "swap", "aria", "watched", "audit", "loose"})
ODD = (
    "odd name",
    "größe",
    "with-dash",
    "back`tick",
    "semi;colon",
    "quo'te",
    'dou"ble',
    "select",
    "1st",
    "$x",
    "a.b",
    "hash#tag",
    "日本",
    "-- c",
)
ROWS_OF: Mapping[str, Sequence[str]] = {
    "id": (
        "INSERT INTO {t} (id, a, n) VALUES (%(k)s, %(s)s, %(n)s) ON DUPLICATE KEY UPDATE a = %(s)s",
        "REPLACE INTO {t} (id, a) VALUES (%(k)s, %(s)s), (%(k)s + 1, %(s)s), (%(k)s + 2, NULL)",
        "UPDATE {t} SET n = n + 1 WHERE id BETWEEN %(k)s AND %(k)s + 15",
        "UPDATE {t} SET a = %(s)s WHERE id = %(k)s",
        "UPDATE IGNORE {t} SET id = id + 500 WHERE id BETWEEN %(k)s AND %(k)s + 3",
        "UPDATE {t} SET id = id + 1 WHERE id > %(k)s ORDER BY id DESC",
        "UPDATE IGNORE {t} SET id = id - 500 WHERE id > 500",
        "DELETE FROM {t} WHERE id = %(k)s OR id = %(k)s + 500",
        "DELETE FROM {t} WHERE id MOD 37 = %(k)s MOD 37",
        "INSERT IGNORE INTO {t} (id, a, n) SELECT id + 200, a, n FROM {other} WHERE id < %(k)s",
        "UPDATE {t} AS x JOIN {other} AS y ON x.id = y.id SET x.n = y.n + 1, y.a = %(s)s",
        "DELETE FROM {t} WHERE id > %(k)s AND id IN (SELECT id FROM {other})",
    ),
    "k": (
        "INSERT IGNORE INTO {t} (k, l, a, n) VALUES (concat('k', %(k)s DIV 4), %(k)s MOD 4, %(s)s, %(n)s)",
        "UPDATE {t} SET n = n + 1, a = %(s)s WHERE k = concat('k', %(k)s DIV 4)",
        "UPDATE {t} SET l = l + 10 WHERE k = concat('k', %(k)s DIV 4) AND l < 10",
        "UPDATE IGNORE {t} SET k = concat('k', %(k)s DIV 4) WHERE k = 'k1'",
        "DELETE FROM {t} WHERE k = concat('k', %(k)s DIV 4) AND l >= 10",
    ),
    "code": (
        "INSERT IGNORE INTO {t} (code, a, n) VALUES (concat('c', %(k)s), %(s)s, %(n)s)",
        "UPDATE {t} SET code = concat(code, 'ü'), n = n + 1 WHERE code = concat('c', %(k)s)",
        "UPDATE {t} SET code = upper(code) WHERE n MOD 2 = %(k)s MOD 2",
        "UPDATE {t} SET a = NULL WHERE code = concat('c', %(k)s)",
        "DELETE FROM {t} WHERE code LIKE concat('c', %(k)s, '%%')",
    ),
}  # fmt: skip


class Refused(Exception):
    """A lock that something else holds, or a key that is there."""


class MariaDB:
    """One writer at a time, by a session that logs rows and one that logs statements."""

    producer, empties, rest = "debezium/penstock", True, 0.15
    refused: tuple[type[Exception], ...] = (Refused,)
    doing = ""

    def __init__(self, server: MariaDBServer, chance: random.Random) -> None:
        self._server, self._chance = server, chance
        self._made = 0
        self._prepared: list[str] = []
        self._connect()

    def _connect(self) -> None:
        self._rows, self._statements, self._looking = (self._session() for _ in range(3))
        self._statements.cursor().execute("SET SESSION binlog_format = 'STATEMENT'")

    def _session(self) -> Any:
        connection = self._server.connect()
        connection.cursor().execute("SET SESSION innodb_lock_wait_timeout = 0, lock_wait_timeout = 2")
        return connection

    def capture(self) -> tuple[str, ...]:
        return ("mariadb", f"{self._server.url}/shop")

    def environment(self) -> Mapping[str, str]:
        return {"PENSTOCK_DATABASE_PASSWORD": PASSWORD, "JAVA_TOOL_OPTIONS": QUICK_JAVA}

    def shown(self, found: pa.Table) -> pa.Table:
        return found

    def place_of(self, text: str) -> int:
        number, _, position = text.partition(":")
        return (int(number) << 40) + int(position)

    def prepare(self) -> None:
        self._server.run("CREATE DATABASE elsewhere", *START, f"CREATE TABLE elsewhere.swap {_IDS}")

    @contextmanager
    def beside(self) -> Iterator[None]:
        yield

    def restart(self) -> signal.Signals:
        for connection in (self._rows, self._statements, self._looking):
            connection.close()
        how = self._chance.choice((signal.SIGKILL, signal.SIGTERM))
        self._server.restart(how)
        self._connect()
        return how

    def unseen(self, note: Note) -> None:
        """Nothing: a capture goes on with all."""

    def rollback(self) -> None:
        for connection in (self._rows, self._statements):
            connection.rollback()

    def finish(self, note: Note) -> None:
        while self._prepared:
            with suppress(Refused):
                self.end_prepared(lambda before: note(self.begins(before)))
        before = self.place()  # behind a TRUNCATE or CREATE TABLE no end is told before the next transaction
        self._execute(self._rows, "REPLACE INTO shop.plain (id, a) VALUES (1000, 'the end')")
        note(self.begins(before))

    # --- What there is --------------------------------------------------------------------------------------------------------------

    def place(self) -> int:
        ((file, position, *_),) = self._ask("SHOW MASTER STATUS")
        return (file_number(file) << 40) + int(position)

    def begins(self, before: int) -> int:
        """Where the first transaction at or behind a place begins: the server writes events of its own before it, whenever it likes."""
        number, position = divmod(before, 1 << 40)
        for file, *_ in self._ask("SHOW BINARY LOGS"):
            if (this := file_number(file)) >= number:
                first = position if this == number else 4
                for _, pos, kind, *_ in self._ask(f"SHOW BINLOG EVENTS IN '{file}' FROM {first} LIMIT 20"):
                    if kind == "Gtid":
                        return (this << 40) + int(pos)
        return before

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._looking.cursor() as cursor:
            cursor.execute(query, values or None)
            return list(cursor.fetchall())

    def _columns(self, schema: str = "shop") -> dict[str, list[str]]:
        columns = dict[str, list[str]]()
        for table, column in self._ask(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c JOIN information_schema.tables t"
            " ON BINARY c.table_schema = BINARY t.table_schema AND BINARY c.table_name = BINARY t.table_name"
            " WHERE BINARY c.table_schema = %s AND t.table_type = 'BASE TABLE'",
            schema,
        ):
            columns.setdefault(table, []).append(column)
        return {table: sorted(names) for table, names in sorted(columns.items())}

    def tables(self) -> dict[str, Table]:
        found = dict[str, Table]()
        for table, columns in self._columns().items():
            names = ", ".join(map(_quoted, columns))
            rows: frozenset[Row] = frozenset(
                tuple(zip(columns, row, strict=True)) for row in self._ask(f"SELECT {names} FROM shop.{_quoted(table)}")
            )
            found["shop_" + re.sub(r'[/\\:*?"<>|#`]', lambda one: f"~{ord(one[0]):02x}", table)] = Table(rows, tuple(columns))
        return found

    # --- What is done ---------------------------------------------------------------------------------------------------------------

    def transact(self, note: Note) -> str:
        drawn = self._chance.random()
        kind: Callable[[MariaDB, Note], None] = MariaDB.change_rows
        if self._prepared and self._chance.random() < 0.25:
            kind = MariaDB.end_prepared
        elif drawn < 0.25:
            kind = self._chance.choice(self.KINDS)
        elif drawn < 0.35:
            kind = self._chance.choice(
                (MariaDB.log_statements, MariaDB.prepare_and_part, MariaDB.end_prepared, MariaDB.one_phase, MariaDB.of_aria)
            )
        self.doing = kind.__name__
        kind(self, lambda before: note(self.begins(before)))
        return self.doing

    def _execute(self, connection: Any, statement: str, values: Mapping[str, object] | None = None) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
        except pymysql.err.IntegrityError as error:
            raise Refused from error
        except pymysql.err.OperationalError as error:
            if error.args[0] not in _REFUSALS:
                raise
            raise Refused from error

    def _change(self, connection: Any, tables: Mapping[str, list[str]] | None = None) -> None:
        """One statement on the rows of one table."""
        known = tables or {name: columns for name, columns in self._columns().items() if name not in ("aria", "loose")}
        table = self._chance.choice(list(known))
        key = next(one for one in ROWS_OF if one in known[table])
        others = [name for name, columns in known.items() if {"id", "a", "n"} <= set(columns)]
        values = {"k": self._chance.randrange(KEYS), "n": self._chance.randrange(10**6), "s": f"s{self._chance.randrange(1000)}"}
        statement = self._chance.choice(ROWS_OF[key])
        if "big" in known[table] and self._chance.random() < 0.3:
            statement = "UPDATE {t} SET big = repeat(%(s)s, 900), n = n + 1 WHERE id MOD 5 = %(k)s MOD 5"
        names = {"t": f"shop.{_quoted(table)}", "other": f"shop.{_quoted(self._chance.choice(others or [table]))}"}
        self._execute(connection, statement.format(**names), values)

    def _together(self, note: Note, connection: Any, count: int) -> None:
        before = self.place()
        self._execute(connection, "START TRANSACTION")
        for number in range(count):
            if number == 1 and self._chance.random() < 0.2:
                self._execute(connection, "SAVEPOINT here")
                self._change(connection)
                self._execute(connection, "ROLLBACK TO here")
            self._change(connection)
        self._execute(connection, "ROLLBACK" if self._chance.random() < 0.05 else "COMMIT")
        note(before)

    def change_rows(self, note: Note) -> None:
        self._together(note, self._rows, self._chance.choice((1, 1, 1, 2, 5, 20)))

    def log_statements(self, note: Note) -> None:
        self._together(note, self._statements, self._chance.choice((1, 2, 4)))

    def of_aria(self, note: Note) -> None:
        """A table that knows no transactions."""
        for _ in range(3):
            before = self.place()
            self._change(self._rows, {"aria": self._columns()["aria"]})
            note(before)

    def prepare_and_part(self, note: Note) -> None:
        """The first of two phases, of a session that ends then."""
        if not self._prepared:
            name = self._in_branch("XA PREPARE '{}'", ("pair", "codes"))
            self._prepared.append(name)

    def _in_branch(self, ending: str, tables: Sequence[str]) -> str:
        self._made += 1
        name, session = f"x{self._made}", self._session()
        try:
            self._execute(session, f"XA START '{name}'")
            for _ in range(3):
                self._change(session, {one: columns for one, columns in self._columns().items() if one in tables})
            for statement in ("XA END '{}'", ending):
                self._execute(session, statement.format(name))
        finally:
            number = session.thread_id()
            session.close()
        wait_until(lambda: not self._is_there(number), "the session's end, before which nobody else may end its branch")
        return name

    def _is_there(self, session: int) -> bool:
        with self._looking.cursor() as cursor:
            cursor.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s", (session,))
            return bool(cursor.fetchall())

    def end_prepared(self, note: Note) -> None:
        if self._prepared:
            before, name = self.place(), self._prepared.pop(self._chance.randrange(len(self._prepared)))
            self._execute(self._rows, f"XA {self._chance.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} '{name}'")
            note(before)

    def one_phase(self, note: Note) -> None:
        before = self.place()
        self._in_branch("XA COMMIT '{}' ONE PHASE", ("plain", "watched"))
        note(before)

    # --- Tables ---------------------------------------------------------------------------------------------------------------------

    def _say(self, note: Note, statement: str, **tables: str | tuple[str, str]) -> None:
        """A statement about tables (of the shop), in one of the ways in which people write it; committed by itself."""
        session = self._statements if self._chance.random() < 0.15 else self._rows
        default = self._chance.choice(("shop", "shop", "elsewhere"))
        mark = '"' if self._chance.random() < 0.1 else "`"
        named = {name: table if isinstance(table, tuple) else ("shop", table) for name, table in tables.items()}
        texts = {
            name: ("" if schema == default and self._chance.random() < 0.7 else f"{mark}{schema}{mark}.") + self._name(table, mark)
            for name, (schema, table) in named.items()
        }
        shape = self._chance.choice(("{}", "{}", "{}", "/* DROP TABLE plain; */ {}", "  {}", "# plain\n{}", "/*! {} */"))
        if "'" not in statement and self._chance.random() < 0.2:
            statement = re.sub(r"(?<!{)\b[A-Z]+\b", lambda word: word[0].lower(), statement)
        self._execute(session, f"USE {default}")
        self._execute(session, f"SET SESSION sql_mode = '{'ANSI_QUOTES' if mark == chr(34) else ''}'")
        before = self.place()
        try:
            self._execute(session, shape.format(statement.format(**texts)))
        finally:
            self._execute(session, "SET SESSION sql_mode = ''")
        note(before)

    def _name(self, table: str, mark: str) -> str:
        if re.fullmatch(r"[a-zA-Z]+[0-9]+", table) and self._chance.random() < 0.5:
            return table
        return mark + table.replace(mark, 2 * mark) + mark

    def _some(self, note: Note) -> str:
        found = [name for name in self._columns() if name not in FIXED]
        return self._chance.choice(found) if found else self._new(note)

    def _fresh(self) -> str:
        self._made += 1
        drawn = self._chance.random()
        return (
            f"{self._chance.choice(ODD)} {self._made}"
            if drawn < 0.3
            else f"MADE{self._made - 1}"
            if drawn < 0.4
            else f"made{self._made}"
        )

    def _new(self, note: Note) -> str:
        name = self._fresh()
        self._say(note, "CREATE TABLE IF NOT EXISTS {t} " + _IDS, t=name)
        self._fill(note, name, "new")
        return name

    def _fill(self, note: Note, name: str, text: str) -> None:
        before = self.place()
        self._execute(self._rows, f"INSERT INTO shop.{_quoted(name)} (id, a, n) {_TEN} i, '{text}', i FROM g")
        note(before)

    def _altered(self, note: Note, name: str) -> None:
        """A row more, so that the log has one of the new form."""
        before = self.place()
        self._change(self._rows, {name: self._columns()[name]})
        note(before)

    def rename(self, note: Note) -> None:
        name, new = self._some(note), self._fresh()
        self._say(
            note,
            self._chance.choice(("RENAME TABLE {t} TO {u}", "ALTER TABLE {t} RENAME TO {u}", "ALTER TABLE {t} RENAME {u}")),
            t=name,
            u=new,
        )
        self._altered(note, new)

    def rename_and_make_anew(self, note: Note) -> None:
        name, new = self._some(note), self._fresh()
        self._say(note, "RENAME TABLE {t} TO {u}", t=name, u=new)
        self._say(note, "CREATE TABLE {t} " + _IDS, t=name)
        self._fill(note, name, "anew")

    def swap(self, note: Note) -> None:
        one, other = self._some(note), self._new(note)
        self._say(note, "RENAME TABLE {t} TO {z}, {u} TO {t}, {z} TO {u}", t=one, u=other, z=self._fresh())

    def rename_and_add(self, note: Note) -> None:
        """Two things in one statement."""
        name, new = self._some(note), self._fresh()
        self._say(note, f"ALTER TABLE {{t}} RENAME TO {{u}}, ADD COLUMN c{self._made} INT", t=name, u=new)
        self._altered(note, new)

    def move_away(self, note: Note) -> None:
        """Into a database that is not captured, and for some back."""
        name = self._some(note)
        away = "elsewhere", f"away{self._made}"
        self._say(note, "DROP TABLE IF EXISTS {t}", t=away)
        self._say(note, "RENAME TABLE {t} TO {u}", t=name, u=away)
        if self._chance.random() < 0.6:
            self._say(note, "UPDATE {t} SET a = 'was away'", t=away)
            self._say(note, "RENAME TABLE {u} TO {t}", t=name, u=away)

    def drop(self, note: Note) -> None:
        self._say(note, "DROP TABLE IF EXISTS {t}", t=self._some(note))

    def drop_many(self, note: Note) -> None:
        self._say(note, "DROP TABLE {t}, {u}", t=self._new(note), u=self._new(note))

    def drop_and_make_anew(self, note: Note) -> None:
        name = self._some(note)
        self._say(note, "DROP TABLE {t}", t=name)
        self._say(note, "CREATE TABLE {t} (id INT PRIMARY KEY, n BIGINT, more INT, a VARCHAR(200))", t=name)
        self._fill(note, name, "again")

    def create_or_replace(self, note: Note) -> None:
        name = self._some(note)
        self._say(note, "CREATE OR REPLACE TABLE {t} (n BIGINT, a VARCHAR(200), id INT PRIMARY KEY)", t=name)
        self._fill(note, name, "replaced")

    def create_or_replace_of(self, note: Note) -> None:
        name = self._some(note)
        self._say(note, "CREATE OR REPLACE TABLE {t} (PRIMARY KEY (id)) AS SELECT id, a, n + 1 AS n FROM {u}", t=name, u="plain")

    def make_of(self, note: Note) -> None:
        self._say(note, "CREATE TABLE {t} (PRIMARY KEY (id)) SELECT id, a, n FROM {u} WHERE n > 3", t=self._fresh(), u="plain")

    def make_like(self, note: Note) -> None:
        name, new = self._some(note), self._fresh()
        self._say(note, "CREATE TABLE {u} LIKE {t}", t=name, u=new)
        self._fill(note, new, "like")

    def make_if_there_is_none(self, note: Note) -> None:
        """There is one, so it does nothing."""
        self._say(note, "CREATE TABLE IF NOT EXISTS {t} (id INT PRIMARY KEY, other INT)", t=self._some(note))

    def make(self, note: Note) -> None:
        self._new(note)

    def truncate(self, note: Note) -> None:
        self._say(note, self._chance.choice(("TRUNCATE {t}", "TRUNCATE TABLE {t}")), t=self._some(note))

    def add_column(self, note: Note) -> None:
        name, where = self._some(note), self._chance.choice(("", " FIRST", " AFTER id"))
        self._made += 1
        self._say(note, f"ALTER TABLE {{t}} ADD COLUMN c{self._made} INT{where}", t=name)
        self._say(note, f"UPDATE {{t}} SET c{self._made} = n WHERE id MOD 2 = 0", t=name)

    def _added(self, name: str) -> list[str]:
        """The columns that a table got later."""
        return [column for column in self._columns()[name] if re.fullmatch(r"c\d+", column)]

    def fill_column(self, note: Note) -> None:
        """With a new column that rows have values of."""
        name, how = self._some(note), self._chance.choice(("INT NOT NULL", "INT DEFAULT 7, ALGORITHM=COPY", "INT DEFAULT 7"))
        self._made += 1
        self._say(note, f"ALTER TABLE {{t}} ADD COLUMN c{self._made} {how}", t=name)
        self._altered(note, name)

    def rename_column(self, note: Note) -> None:
        name = self._some(note)
        if added := self._added(name):
            self._made += 1
            self._say(note, f"ALTER TABLE {{t}} RENAME COLUMN {added[0]} TO c{self._made}", t=name)
            self._altered(note, name)

    def drop_column(self, note: Note) -> None:
        name = self._some(note)
        if added := self._added(name):
            self._say(note, f"ALTER TABLE {{t}} DROP COLUMN {added[0]}", t=name)
            self._altered(note, name)

    def change_columns(self, note: Note) -> None:
        name = self._some(note)
        what = self._chance.choice(
            (
                "MODIFY a TEXT FIRST",
                "MODIFY n BIGINT AFTER id",
                "MODIFY id BIGINT",
                "CHANGE a a VARCHAR(400)",
                "MODIFY id INT FIRST",
            )
        )
        self._say(note, f"ALTER TABLE {{t}} {what}", t=name)
        self._altered(note, name)

    def change_key(self, note: Note) -> None:
        name = self._new(note)
        self._say(note, "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)", t=name)
        before = self.place()
        self._execute(self._rows, f"INSERT INTO shop.{_quoted(name)} (id, a, n) VALUES (3, 'second of this id', 77)")
        note(before)

    def key_anew(self, note: Note) -> None:
        """A migration: without a key for a moment, in which a row comes."""
        name = self._new(note)
        self._say(note, "ALTER TABLE {t} DROP PRIMARY KEY", t=name)
        self._say(note, "INSERT INTO {t} (id, a) VALUES (9999, 'keyless')", t=name)
        self._say(note, "ALTER TABLE {t} ADD PRIMARY KEY (id)", t=name)
        self._altered(note, name)

    def truncate_partition(self, note: Note) -> None:
        self._say(note, "ALTER TABLE {t} TRUNCATE PARTITION mid", t="parts")

    def drop_partition(self, note: Note) -> None:
        self._say(note, "ALTER TABLE {t} DROP PARTITION mid", t="parts")
        self._say(note, f"ALTER TABLE {{t}} REORGANIZE PARTITION high INTO ({_MID}, {_HIGH})", t="parts")

    def exchange_partition(self, note: Note) -> None:
        other = self._chance.choice((("shop", "swap"), ("elsewhere", "swap")))
        self._say(note, "DELETE FROM {t}", t=other)
        self._say(note, "INSERT INTO {t} VALUES (41, 'exchanged', 1), (42, 'exchanged', 2)", t=other)
        self._say(note, "ALTER TABLE {t} EXCHANGE PARTITION mid WITH TABLE {u}", t="parts", u=other)

    def convert_partition(self, note: Note) -> None:
        name = self._fresh()
        self._say(note, "ALTER TABLE {t} CONVERT PARTITION low TO TABLE {u}", t="parts", u=name)
        self._say(note, f"ALTER TABLE {{t}} REORGANIZE PARTITION mid INTO ({_LOW}, {_MID})", t="parts")

    def rebuild(self, note: Note) -> None:
        how = ("OPTIMIZE TABLE {t}", "ANALYZE TABLE {t}", "ALTER TABLE {t} ENGINE=InnoDB", "ALTER TABLE {t} FORCE")
        self._say(note, self._chance.choice(how), t=self._some(note))

    def temporary(self, note: Note) -> None:
        """A table of one session's own hides one of all sessions, and is changed and dropped in its stead."""
        name, session = self._some(note), self._chance.choice((self._rows, self._statements))
        quoted = _quoted(name)
        self._execute(session, "USE shop")
        before = self.place()
        for statement in (
            f"CREATE TEMPORARY TABLE {quoted} {_IDS}",
            f"INSERT INTO {quoted} VALUES (1, 'temporary', 1)",
            self._chance.choice(
                (f"TRUNCATE TABLE {quoted}", f"UPDATE {quoted} SET n = 0", f"ALTER TABLE {quoted} ADD COLUMN x INT")
            ),
            self._chance.choice((f"DROP TABLE {quoted}", f"DROP TEMPORARY TABLE {quoted}")),
        ):
            self._execute(session, statement)
        note(before)

    def no_tables(self, note: Note) -> None:
        """A sequence, and a view that gets another name."""
        self._made += 1
        self._say(note, "CREATE SEQUENCE {t}", t=f"sequence{self._made}")
        self._say(note, "CREATE VIEW {t} AS SELECT id FROM shop.plain", t=f"view{self._made}")
        self._say(note, "RENAME TABLE {t} TO {u}", t=f"view{self._made}", u=f"viewed{self._made}")

    def drop_database(self, note: Note) -> None:
        if self._chance.random() < 0.3:
            self.finish(note)  # a prepared transaction holds its tables
            for statement in ("DROP DATABASE shop", "CREATE DATABASE shop", *START):
                before = self.place()
                self._execute(self._rows, statement)
                note(before)

    KINDS: tuple[Callable[[Any, Note], None], ...] = (
        rename, rename_and_make_anew, swap, rename_and_add, move_away, drop, drop_many, drop_and_make_anew, create_or_replace,
        create_or_replace_of, make_of, make_like, make_if_there_is_none, make, make, truncate, add_column, fill_column, rename_column, drop_column,
        change_columns, change_key, key_anew, truncate_partition, drop_partition, exchange_partition, convert_partition, rebuild, temporary,
        no_tables, drop_database,
    )  # fmt: skip


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
