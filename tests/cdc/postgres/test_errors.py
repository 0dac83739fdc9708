"""What a server says, in Penstock's words: what is to be done follows from the kind. Without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.postgres.errors import SlotInUse, SlotLost, translated
from penstock.log.errors import InternalError, InvalidArgument, PenstockError, PermissionDenied


def error(kind: type[psycopg.Error], state: str | None, said: str) -> psycopg.Error:
    class Said(kind):  # type: ignore[misc, valid-type]
        sqlstate = state
        diag = SimpleNamespace(message_primary=None)

    found: psycopg.Error = Said(said)
    return found


NO_LOGIN, REFUSED = "the database refused the login", "the database refused it to this user"


@pytest.mark.parametrize(
    ("kind", "state", "said", "ours", "message"),
    [
        (psycopg.Error, "55006", "it is active for PID 7", SlotInUse, "another process reads from the slot"),
        (psycopg.Error, "55000", "can no longer get changes from replication slot", SlotLost, "the replication slot is lost"),
        (psycopg.Error, "58P01", "the slot's log was removed", SlotLost, "the replication slot is lost"),
        (psycopg.Error, "55000", "wal_level is too low", InternalError, "the database refused what a capture asks"),
        (psycopg.Error, "XX000", "the slot is broken", InternalError, "the database refused what a capture asks"),
        (psycopg.OperationalError, "28P01", "it failed", PermissionDenied, NO_LOGIN),
        (psycopg.OperationalError, "28000", "it failed", PermissionDenied, NO_LOGIN),
        (psycopg.Error, "42501", "permission denied for table t", PermissionDenied, REFUSED),
        (psycopg.OperationalError, "3D000", "no such database", InvalidArgument, "there is no such database"),
        (psycopg.Error, "53400", "all replication slots are in use", InvalidArgument, "no room for another slot"),
        (psycopg.OperationalError, None, "password authentication failed", PermissionDenied, NO_LOGIN),
        (psycopg.OperationalError, None, "fe_sendauth: no password supplied", PermissionDenied, NO_LOGIN),
        (psycopg.OperationalError, None, "no pg_hba.conf entry", PermissionDenied, NO_LOGIN),
        (psycopg.OperationalError, None, "connection refused", SourceUnavailable, "the database does not answer"),
        (psycopg.OperationalError, "57P01", "terminating connection: authentication timeout", SourceUnavailable, "does not answer"),
        (
            psycopg.DataError,
            "22021",
            "invalid byte sequence for encoding",
            InvalidArgument,
            "a text of the database is not in UTF-8",
        ),
        (psycopg.ProgrammingError, "42601", "syntax error", InternalError, "the database refused what a capture asks"),
    ],
)
def test_what_a_server_says_is_told_by_its_kind(
    kind: type[psycopg.Error], state: str | None, said: str, ours: type[PenstockError], message: str
) -> None:
    with pytest.raises(PenstockError) as raised, translated("follow", "slot"):
        raise error(kind, state, f"{said}\nmore of it")
    assert type(raised.value) is ours
    assert message in str(raised.value)
    assert said in str(raised.value)


def test_what_is_no_error_of_the_server_s_passes() -> None:
    with pytest.raises(ZeroDivisionError), translated("follow", "slot"):
        print(1 // 0)


def test_the_server_s_own_word_goes_before_the_library_s() -> None:
    found: Any = error(psycopg.Error, "42501", "the library says")
    found.diag.message_primary = "the server says"
    with pytest.raises(PermissionDenied, match="observed: the server says"), translated("follow", "slot"):
        raise found
