"""Queries of the database, over the engine's driver: whether it can be captured, and its identity."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...log.errors import InvalidArgument, PermissionDenied
from .charsets import Characters
from .configuration import Connector
from .errors import ConnectorStopped, engine_error, load_jpype
from .queries import (
    COLUMNS_QUERY,
    DATABASES_QUERY,
    KEY_QUERY,
    TABLES_QUERY,
    KeyColumn,
    ServerTable,
    SourceColumn,
    characters_query,
    quoted,
    table_behind,
)

log = logging.getLogger("penstock.cdc")

_RIGHTS = ("SELECT", "RELOAD", "REPLICATION SLAVE", "REPLICATION CLIENT")
_EVENTS_MAX = 10_000
_WHOLE = {"tinyint", "smallint", "mediumint", "int", "bigint"}


class BinlogServer:
    """One database server."""

    def __init__(self, connector: Connector, properties: Mapping[str, str]) -> None:
        self._connector, self._properties = connector, properties
        self.where = f"{properties.get('database.hostname', 'localhost')}:{properties.get('database.port', '3306')}"
        self._open: Any = None
        self._characters: dict[str, Characters] = {}
        self._case: str | None = None

    def close(self) -> None:
        if self._open is not None:
            with suppress(load_jpype().JException):  # it is gone already
                self._open.close()
            self._open = None

    def _connection(self) -> Any:  # noqa: ANN401 - Java's
        if self._open is None:
            jpype = load_jpype()
            properties = jpype.JClass("java.util.Properties")()
            for ours, theirs in (("database.user", "user"), ("database.password", "password")):
                if ours in self._properties:
                    properties.setProperty(theirs, self._properties[ours])
            properties.setProperty("connectTimeout", "10000")
            driver = jpype.JClass(self._connector.driver_class)()
            self._open = driver.connect(f"jdbc:{self._connector.protocol}://{self.where}/", properties)
        return self._open

    def ask(self, query: str, *values: str) -> list[tuple[str | None, ...]]:
        """The rows of an answer, as text. Raises the errors of `engine_error`."""
        jpype = load_jpype()
        try:
            statement = self._connection().prepareStatement(query)
            try:
                for place, value in enumerate(values, 1):
                    statement.setString(place, value)
                found = statement.executeQuery()
                width = range(1, found.getMetaData().getColumnCount() + 1)
                rows = []
                while found.next():
                    texts = [found.getString(place) for place in width]
                    rows.append(tuple(None if text is None else str(text) for text in texts))
                return rows
            finally:
                statement.close()
        except jpype.JException as error:
            self.close()
            lines: list[str] = []
            cause = error
            while cause is not None and len(lines) < 10:
                lines.append(str(cause.getMessage()))
                cause = cause.getCause()
            raise engine_error("\n".join(lines), self.where) from error

    def _variable(self, name: str) -> str | None:
        rows = self.ask(f"SHOW GLOBAL VARIABLES LIKE '{name}'")
        return rows[0][1] if rows else None

    def check(self) -> None:
        """Raise `InvalidArgument` for a server whose log lacks whole rows, and as `ask` does."""
        wanted = (
            ("log_bin", ("ON",), "log_bin"),
            ("binlog_format", ("ROW",), "binlog_format = ROW"),
            ("binlog_row_image", ("FULL", None), "binlog_row_image = FULL"),
            ("log_bin_compress", ("OFF", None), "log_bin_compress = OFF"),
            ("binlog_transaction_compression", ("OFF", None), "binlog_transaction_compression = OFF"),
            ("binlog_row_value_options", ("", None), "binlog_row_value_options to nothing"),  # PARTIAL_JSON has no whole rows
        )
        for name, good, setting in wanted:
            if (value := self._variable(name)) not in good:
                raise InvalidArgument(
                    "the server's binlog does not have what a capture needs",
                    operation="capture",
                    object=self.where,
                    expected=f"{name} = {good[0] or 'nothing'}",
                    observed=f"{name} = {value}",
                    hint=f"set {setting} in the server's configuration, and restart it",
                )
        self._check_rights()

    def _check_rights(self) -> None:
        grants = self._grants()
        granted = grants.replace("BINLOG MONITOR", "REPLICATION CLIENT").replace("REPLICATION REPLICA", "REPLICATION SLAVE")
        if "ALL PRIVILEGES ON *.*" in granted:
            return
        if "ALL PRIVILEGES ON" in granted:  # of a database, whose tables it may read then
            granted += " SELECT"
        missing = [right for right in _RIGHTS if right not in granted]
        if missing:
            raise engine_error(f"Access denied: the user has no {' and no '.join(missing)}", self.where)

    def _grants(self) -> str:
        return " ".join(row[0] or "" for row in self.ask("SHOW GRANTS")).upper()

    def identity(self) -> str:
        """The server's id, which survives a restart."""
        number = self._variable("server_id")
        uid = self._variable("server_uid") or self._variable("server_uuid")
        return f"{number} {uid}"

    def end(self) -> tuple[str, int]:
        """The end of its log: file and position. Raises `InvalidArgument`."""
        rows = self.ask("SHOW MASTER STATUS") if self._connector.name == "mariadb" else self._mysql_end()
        if not rows:
            raise InvalidArgument("the server writes no binlog", operation="capture", object=self.where, expected="log_bin")
        return str(rows[0][0]), int(rows[0][1] or 0)

    def _mysql_end(self) -> Sequence[tuple[str | None, ...]]:
        (version,) = self.ask("SELECT VERSION()")
        older = tuple(map(int, str(version[0]).split("-")[0].split(".")[:2])) < (8, 2)
        return self.ask("SHOW MASTER STATUS" if older else "SHOW BINARY LOG STATUS")

    def logs(self) -> list[tuple[str, int]]:
        return [(str(row[0]), int(row[1] or 0)) for row in self.ask("SHOW BINARY LOGS")]

    def sequences(self) -> list[str]:
        """The sequences: MariaDB logs their numbers as rows of tables."""
        rows = self.ask("SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'SEQUENCE'")
        return [f"{database}.{name}" for database, name in rows]

    def has(self, table: str) -> bool:
        return bool(self._places(table))

    def name_of(self, joined: str) -> tuple[str, str]:
        """The database and the name in the connector's name of a table; for a gone table, with the longest fitting database."""
        if places := self._places(joined):
            return places[0]
        fitting = [str(database) for (database,) in self.ask(DATABASES_QUERY, joined)]
        database = max(fitting, key=len, default=joined.partition(".")[0])
        return database, joined[len(database) + 1 :]

    def dates_behind(self, file: str, pos: int, since: int) -> str | None:
        """The table, with its date columns, of the first event of rows after a place. ``since``: an earlier position, of a
        transaction. None: too far, or not visible for this user.
        """
        try:
            events = self.ask(f"SHOW BINLOG EVENTS IN '{file}' FROM {since} LIMIT {_EVENTS_MAX}")
        except (ConnectorStopped, PermissionDenied) as error:
            log.warning("the table of an event cannot be told: %s", error)
            return None
        if (table := table_behind(events, pos)) is None:
            return None
        dates = [column.name for column in self.table(table).columns if column.kind in ("date", "datetime")]
        return f"{table}.{dates[0]}" if len(dates) == 1 else f"{table} ({', '.join(dates)})"

    def runs_more(self, names: Collection[str]) -> bool | None:
        """Whether a table of these names has triggers, or a function or procedure has one of them: they may change other
        tables. None: triggers are invisible.
        """
        triggers = "SELECT 1 FROM information_schema.triggers WHERE event_object_table = ?"
        routines = "SELECT 1 FROM information_schema.routines WHERE routine_name = ?"
        if any(self.ask(f"{triggers} UNION {routines}", name, name) for name in names):
            return True
        granted = self._grants()
        return False if "TRIGGER" in granted or "ALL PRIVILEGES ON *.*" in granted else None

    def _places(self, joined: str) -> list[tuple[str, str]]:
        places = [(str(database), str(name)) for database, name in self.ask(TABLES_QUERY, joined)]
        same = [place for place in places if ".".join(place) == joined]
        return same if same or self._case_of_names() == "0" else places

    def lowers_names(self) -> bool:
        """Whether the server has tables' names in small letters; its log has statements unchanged."""
        return self._case_of_names() == "1"

    def _case_of_names(self) -> str:
        """The server's treatment of case in tables' names: where it is 0, two may differ by case alone."""
        if self._case is None:
            self._case = self._variable("lower_case_table_names") or "0"
        return self._case

    def characters(self, charset: str) -> Characters:
        """The characters of one of the server's sets, within Unicode's first plane."""
        if charset not in self._characters:
            rows = self.ask(characters_query(charset))
            self._characters[charset] = {bytes.fromhex(str(data)): str(text) for data, text in rows}
        return self._characters[charset]

    def table(self, joined: str) -> ServerTable:
        """The table of the connector's name, ``database.table``; either part may have dots. Raises `InvalidArgument`."""
        places = self._places(joined)
        if len(places) > 1:
            raise InvalidArgument(
                "two tables have one name here, so their rows could not be told apart",
                operation="capture",
                object=joined,
                observed=" and ".join(f"{quoted(database)}.{quoted(name)}" for database, name in places),
                hint="rename one of them",
            )
        if not places:
            return ServerTable(*self.name_of(joined))
        ((database, name),) = places
        columns = {str(column): str(kind).lower() for column, kind in self.ask(COLUMNS_QUERY, database, name)}
        # A table WITH SYSTEM VERSIONING has a column in its key that it has nowhere else: all rows that it shows have the same there.
        key = [str(column) for (column,) in self.ask(KEY_QUERY, database, name) if column in columns]
        return ServerTable(
            database,
            name,
            tuple(SourceColumn(*column) for column in columns.items()),
            tuple(KeyColumn(column, columns[column] in _WHOLE) for column in key),
        )
