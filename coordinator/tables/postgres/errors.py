"""The meaning of asyncpg's errors for a table of cells."""

from __future__ import annotations

import ssl
from typing import TypeAlias

import asyncpg

from ....log.errors import (
    NO_ROOM,
    NO_ROOM_HINT,
    DataDamaged,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    PenstockError,
    PermissionDenied,
    StorageFull,
    StoreUnavailable,
)
from ..protocol import TableMismatch, TableNotFound

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""What a call of asyncpg may raise. What else it raises is a mistake of the call."""

_Meaning: TypeAlias = tuple[type[PenstockError], str, str | None]

_LOGIN: _Meaning = (
    PermissionDenied,
    "PostgreSQL refused the login",
    "Name the user in the URL, and set PGPASSWORD in the environment or write a passfile (~/.pgpass); pg_hba.conf says who may come, and how",
)
_POOLED: _Meaning = (
    NotSupported,
    "the connection pool before PostgreSQL mixes up prepared statements",
    "PgBouncer 1.21 or newer with max_prepared_statements above 0, or pool_mode=session",
)
_FOREIGN: _Meaning = (
    TableMismatch,
    "the table is not one of cells",
    "Name another table in the URL (table=…)",
)
_STANDBY: _Meaning = (
    StoreUnavailable,
    "the PostgreSQL server takes no writes",
    "Name all hosts in the URL (postgresql://user@one,two/database) if it is a standby; else look at default_transaction_read_only",
)

_NO_TABLE: _Meaning = (
    TableNotFound,
    "there is no such table in PostgreSQL",
    "Make it with penstock.coordinator.create_table(url), or check its name and the database in the URL",
)
_NO_TABLE_CODES = ("42P01", "3F000")
_MADE_MEANWHILE = ("23505", "42P07", "42710")

_CODES: dict[str, _Meaning] = {
    **dict.fromkeys(("28000", "28P01", "0P000"), _LOGIN),
    "3D000": (TableNotFound, "there is no such PostgreSQL database", "Make it (CREATE DATABASE), or name another in the URL"),
    "42501": (
        PermissionDenied,
        "PostgreSQL refuses this use of the table",
        "`penstock infra policy ROLE --grants` prints what a process needs",
    ),
    "25006": _STANDBY,
    **dict.fromkeys(_NO_TABLE_CODES, _NO_TABLE),
    **dict.fromkeys(("42703", "42804", "42809", "42883", "42P10", "42P18", "23502", "23514", "23503", "23505"), _FOREIGN),
    **dict.fromkeys(("26000", "42P05"), _POOLED),
    "53100": (StorageFull, NO_ROOM, NO_ROOM_HINT),
    "53300": (
        StoreUnavailable,
        "PostgreSQL has no connection left",
        "Each process with an open lake takes two at most: raise max_connections, or put PgBouncer before the server",
    ),
    "53400": (StoreUnavailable, "PostgreSQL has reached a limit that it is set to", None),
    "57014": (StoreUnavailable, "PostgreSQL cancelled the statement", "Is statement_timeout or lock_timeout below a second?"),
    "55P03": (StoreUnavailable, "the cell's row is locked", "Does a session hold it? pg_stat_activity shows which"),
    **dict.fromkeys(("22021", "22P05"), (NotSupported, "the database cannot hold the key", "Use a database in the encoding UTF8")),
    "54000": (LimitExceeded, "PostgreSQL has no room for the row", None),
    **dict.fromkeys(("XX001", "XX002"), (DataDamaged, "PostgreSQL found the table damaged", "Restore it from a backup")),
}
_CLASSES: dict[str, _Meaning] = {
    "08": (StoreUnavailable, "the connection to PostgreSQL broke", None),
    "40": (StoreUnavailable, "PostgreSQL is changing what this call meets", None),
    "53": (StoreUnavailable, "PostgreSQL is short of resources", None),
    "57": (StoreUnavailable, "PostgreSQL is starting, stopping or was killed", None),
    "58": (StoreUnavailable, "the file system failed under PostgreSQL", None),
    "0A": (StoreUnavailable, "PostgreSQL cannot do this now", None),
    "42": (InvalidArgument, "PostgreSQL refused the statement", "Check the database and the table in the URL"),
}
_ROLLED_BACK = ("40001", "40P01")


def takes_no_writes() -> Exception:
    """What a standby would have answered to a write."""
    return asyncpg.ReadOnlySQLTransactionError("the server is in recovery")


def lacks_table(error: PenstockError) -> bool:
    """Whether there is no such table or schema. Nothing was written."""
    return _code_of(error.__cause__) in _NO_TABLE_CODES


def was_made_meanwhile(error: PenstockError) -> bool:
    """Whether another process made the table."""
    return _code_of(error.__cause__) in _MADE_MEANWHILE


def may_not_make(error: PenstockError) -> bool:
    """Whether the table's schema is missing, or closed to this user."""
    return _code_of(error.__cause__) in ("42501", "3F000")


def is_rolled_back(error: BaseException) -> bool:
    """Whether others' transactions were in the way. Nothing was written."""
    return _code_of(error) in _ROLLED_BACK


def keeps_connection(error: BaseException) -> bool:
    """Whether the server ended the statement, in order."""
    return _code_of(error)[:2] in {"22", "23", "40", "42", "55"} and _code_of(error) != "42P05"


def translate(error: Exception, *, operation: str, object: str) -> PenstockError:
    kind, message, hint = _meaning(error)
    text = str(error).strip() or type(error).__name__
    return kind(
        message, operation=operation, object=object, observed=f"{text} ({code})" if (code := _code_of(error)) else text, hint=hint
    )


def _meaning(error: Exception) -> _Meaning:
    code = _code_of(error)
    if code:
        return _CODES.get(code) or _CLASSES.get(code[:2]) or (StoreUnavailable, "PostgreSQL did not answer as it should", None)
    match error:
        case TimeoutError():
            return StoreUnavailable, "PostgreSQL did not answer in time", None
        case ssl.SSLCertVerificationError():
            return (
                PermissionDenied,
                "the certificate of the PostgreSQL server is not trusted",
                "Name the file of its authority in the URL (sslrootcert=…)",
            )
        case OSError():
            return StoreUnavailable, "PostgreSQL cannot be reached", None
        case asyncpg.ClientConfigurationError():
            return InvalidArgument, "the coordination table's URL does not fit", "Check its options, and PG… in the environment"
        case asyncpg.InterfaceError() | asyncpg.InternalClientError():
            # The latter where the server has said that it ends, and the end of the connection is not here yet.
            return StoreUnavailable, "the connection to PostgreSQL broke", None
    return InternalError, "the client of PostgreSQL failed", None


def _code_of(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or "")
