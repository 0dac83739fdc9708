"""The failures of a PostgreSQL, and psycopg's errors as Penstock's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...log.errors import CallError, InternalError, InvalidArgument, PenstockError, PermissionDenied
from ..capture.errors import CaptureRetry, SourceUnavailable, load_extra

_NO_CHARACTERS = ("22021", "22P05")
"""character_not_in_repertoire, untranslatable_character."""


class SlotInUse(CaptureRetry):
    """Another process reads from the replication slot."""

    kind = "slot_in_use"


class SlotLost(CallError):
    """The replication slot is gone, or the server dropped log for it: changes are missing."""

    kind = "slot_lost"


def load_psycopg() -> Any:  # noqa: ANN401 - a module
    """The extra psycopg. Raises `MissingDependency`."""
    return load_extra("psycopg", "reading PostgreSQL needs psycopg", "postgres")


@contextmanager
def translated(operation: str, where: str) -> Iterator[None]:
    """Raise psycopg's errors inside as `PenstockError`."""
    try:
        yield
    except load_psycopg().Error as error:
        raise translation(error, operation, where) from error


def translation(error: Any, operation: str, where: str) -> PenstockError:  # noqa: ANN401 - psycopg is an extra
    psycopg = load_psycopg()
    message = (getattr(error.diag, "message_primary", None) or str(error)).strip()
    state = error.sqlstate or ""
    facts: dict[str, Any] = {
        "operation": operation,
        "object": where,
        "observed": message.splitlines()[0] if message else "no reason given",
    }
    if state == "55006":
        return SlotInUse("another process reads from the slot", hint="end it, or give this capture a slot of its own", **facts)
    if state in ("55000", "58P01") and "slot" in message:
        return slot_lost(where, message)
    if state.startswith("28"):
        return PermissionDenied("the database refused the login", hint="see user and password: PGUSER, PGPASSWORD", **facts)
    if state == "42501":
        return PermissionDenied("the database refused it to this user", **facts)
    if state == "3D000":
        return InvalidArgument("there is no such database", **facts)
    if state == "53400":
        hint = "raise max_replication_slots and restart the server, or drop a slot that nobody needs"
        return InvalidArgument("the server has no room for another slot", hint=hint, **facts)
    if state in _NO_CHARACTERS:
        hint = "write the text anew in UTF-8: a database of SQL_ASCII takes whatever bytes it is given"
        return InvalidArgument("a text of the database is not in UTF-8", hint=hint, **facts)
    if isinstance(error, psycopg.OperationalError):
        if (state == "" and "authentication" in message) or "no password supplied" in message or "pg_hba" in message:
            return PermissionDenied("the database refused the login", hint="see user and password: PGUSER, PGPASSWORD", **facts)
        return SourceUnavailable("the database does not answer", **facts)
    return InternalError("the database refused what a capture asks of it", expected="success", **facts)


def ended(error: Any, where: str, publication: str) -> PenstockError:  # noqa: ANN401 - psycopg is an extra
    """The `PenstockError` for the end of a stream. An error of a change in the log is permanent: the log is decoded by the
    catalogue of its time.
    """
    message = str(error.diag.message_primary or error).strip().splitlines()[0]
    state = error.sqlstate or ""
    if state == "42704" and "publication" in message:
        return SlotLost(
            "the log has changes of a time when there was no such publication, and they cannot be told",
            operation="follow",
            object=publication,
            observed=message,
            hint="begin again with a new snapshot of the tables: --snapshot again",
        )
    if state.startswith("22"):
        return InvalidArgument(
            "the server cannot tell a change that is in its log",
            operation="follow",
            object=where,
            observed=message,
            hint="correct the value in the source, and begin again with a new snapshot of the tables: --snapshot again",
        )
    return translation(error, "follow", where)


def slot_lost(slot: str, observed: str) -> SlotLost:
    return SlotLost(
        "the replication slot is lost: changes since it was read last are gone",
        operation="capture",
        object=slot,
        observed=observed,
        hint="begin again with a new snapshot of the tables: --snapshot again",
    )
