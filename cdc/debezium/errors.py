"""Obstacles to a capture by Debezium's engine, and its messages as errors of Penstock."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from ...log.errors import CallError, InvalidArgument, PenstockError, PermissionDenied
from ..capture.errors import CaptureRetry, SourceUnavailable, load_extra


class BinlogLost(CallError):
    """The server no longer has the log behind the topic's end: changes are missing."""

    kind = "binlog_lost"


class HistoryLost(CallError):
    """The history of tables' columns, which reading the log needs, is not whole in the lake."""

    kind = "history_lost"


class ConnectorStopped(CaptureRetry):
    """The connector has stopped by itself."""

    kind = "connector_stopped"


class TableUnfollowed(ConnectorStopped):
    """The connector has stopped at an event of a table, the error's object, whose columns it does not know."""


class EventUnreadable(CallError):
    """The connector cannot read an event of the log, now or later."""

    kind = "event_unreadable"


class DateUnreadable(EventUnreadable):
    """A row in the log has a date that no calendar has."""


def load_jpype() -> Any:  # noqa: ANN401 - a module
    """JPype, which is an extra. Raises `MissingDependency`."""
    load_extra("jpype.config", "Debezium's engine needs JPype", "debezium")
    return import_module("jpype")


_LOST = (
    "no longer available on the server",
    "Could not find first log file name",
    "Could not find GTID state requested by slave",
    "purged required binary logs",
    "purged binary logs containing GTIDs",
    "impossible position",
    "position > file size",
)
_GAP = ("not in the master's binlog", "has more GTIDs than the", "diverged")
_DENIED = ("Access denied", "access denied", "command denied")
_UNKNOWN = re.compile(r"for table (.+) whose schema isn't known")
_OTHER_COLUMNS = re.compile(r"row in (.+?),? (?:internal schema size|because it's different column size)")
_NO_DAY = re.compile(r"Error while deserializing binlog data of \w+: (Invalid (?:date|value).*)")
_FOR_GOOD = ("Error processing binlog event", "ParsingException", "DataException", "SchemaBuilderException")
_AWAY = (
    "Connection refused",
    "Could not connect",
    "Communications link failure",
    "Socket fail to connect",
    "Connection reset",
    "Unexpected end of stream",
    "unexpected end of stream",
    "Connection is closed",
    "Server shutdown in progress",
    "Failed to connect",
    "Failed to open socket",
    "Failed to read next byte",
    "EOFException",
    "Too many connections",
)


def engine_error(message: str, where: str) -> PenstockError:
    """The error for the engine's last words: the messages of its exception and causes, a line each."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no reason given"]

    def first(words: tuple[str, ...]) -> str | None:
        return next((line for line in lines for word in words if word in line), None)

    facts: dict[str, Any] = {"operation": "capture", "object": where}
    if found := first(_GAP):
        return BinlogLost(
            "the server does not have the transactions behind those that are in the topic (a gap in its GTIDs)",
            observed=found,
            hint="capture into a new topic, or connect to a server that has them",
            **facts,
        )
    if found := first(_LOST):
        return binlog_lost(where, found)
    if found := first(_DENIED):
        return PermissionDenied(
            "the database refused it to this user",
            observed=found,
            hint="it needs SELECT, RELOAD, REPLICATION SLAVE and REPLICATION CLIENT (see docs/guides/other-databases.md)",
            **facts,
        )
    if found := first(("db history topic or its content", "schema history")):
        return HistoryLost("the connector cannot read the history of the tables", observed=found, hint="--snapshot again", **facts)
    if found := first(_AWAY):
        return SourceUnavailable("the database does not answer", observed=found, **facts)
    if found := first(("configuration is not valid", "ConfigException", "Unable to find or instantiate")):
        return InvalidArgument("the connector refuses its configuration", observed=" / ".join(lines[:4]), **facts)
    for line in lines:
        if named := _UNKNOWN.search(line):
            reason = "the connector does not know its columns, as it does not understand a statement that made or changed it"
            return TableUnfollowed(reason, operation="capture", object=named[1], observed=line)
        if named := _OTHER_COLUMNS.search(line):
            reason = (
                "its rows in the log have other columns than its definition says, as those of a table WITH SYSTEM VERSIONING have, or with a UNIQUE "
                "KEY of a long column, which is USING HASH"
            )
            return TableUnfollowed(reason, operation="capture", object=named[1], observed=line)
    for line in lines:
        if day := _NO_DAY.search(line):
            return DateUnreadable(
                "an event of the log has a date that no calendar has",
                observed=day[1],
                hint="correct the row (UPDATE), then begin again behind the event: --snapshot again; a server without ALLOW_INVALID_DATES in its "
                "sql_mode takes none",
                **facts,
            )
    if found := first(_FOR_GOOD):
        return EventUnreadable(
            "the connector cannot read an event of the log",
            observed=" / ".join(lines[:4]),
            hint="leave the table out that it is of (table.exclude.list), with --snapshot again",
            **facts,
        )
    return ConnectorStopped(
        "the connector has stopped by itself", expected="it runs until it is told", observed=" / ".join(lines[:4]), **facts
    )


def binlog_lost(where: str, observed: str) -> BinlogLost:
    return BinlogLost(
        "the binlog is lost: the server has purged changes that are not in the topic",
        operation="capture",
        object=where,
        observed=observed,
        hint="begin again with a new snapshot of the tables: --snapshot again; and keep the binlog longer (binlog_expire_logs_seconds)",
    )
