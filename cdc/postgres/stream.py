"""The stream of a replication slot, by psycopg's wrapper of libpq and the replication protocol's four messages.

psycopg 3 has no replication connections. psycopg2's may confirm by themselves what the server has sent, so also changes not
stored yet.
"""

from __future__ import annotations

import selectors
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..capture.errors import SourceUnavailable
from .errors import ended, load_psycopg, translated, translation
from .pgoutput import EPOCH_US, PROTOCOL_VERSION

if TYPE_CHECKING:
    from psycopg import Connection

_DATA = struct.Struct(">QQq")
_ALIVE = struct.Struct(">QqB")
_STATUS = struct.Struct(">cQQQqB")


class XLogData(NamedTuple):
    """A message of the plugin."""

    lsn: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server has sent every transaction that committed before ``end_lsn``."""

    end_lsn: int
    wants_answer: bool


class ReplicationStream:
    """The changes of a slot from the confirmed place. Failures raise `SourceUnavailable`, `SlotInUse` or `SlotLost`."""

    def __init__(self, connection: Connection[Any], slot: str, publication: str, where: str) -> None:
        self._connection, self._pg, self._where, self._publication = connection, connection.pgconn, where, publication
        self._error: type[Exception] = load_psycopg().Error
        self._confirmed_lsn = 0
        names = '"' + publication.replace('"', '""') + '"'
        options = f"proto_version '{PROTOCOL_VERSION}', publication_names '{names.replace(chr(39), chr(39) * 2)}'"
        with translated("follow", slot):
            connection.execute(f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 ({options})'.encode())

    def read(self) -> XLogData | Keepalive | None:
        """The next message, if one has come."""
        try:  # and not `translated`, which would take longer than all else here
            count, data = self._pg.get_copy_data(1)
            if count == 0:
                self._pg.consume_input()
                count, data = self._pg.get_copy_data(1)
        except self._error as error:
            raise translation(error, "follow", self._where) from error
        if count == 0:
            return None
        if count < 0:
            raise self._ended()
        message = bytes(data)
        if message[:1] == b"w":
            return XLogData(_DATA.unpack_from(message, 1)[0], message[25:])
        end_lsn, _, wants_answer = _ALIVE.unpack_from(message, 1)
        return Keepalive(end_lsn, bool(wants_answer))

    def _ended(self) -> Exception:
        result = self._pg.get_result()
        if result is None or not result.error_message:
            return SourceUnavailable("the server has ended the stream", operation="follow", object=self._where)
        return ended(load_psycopg().errors.error_from_result(result), self._where, self._publication)

    def wait(self, timeout_s: float) -> None:
        with selectors.DefaultSelector() as selector:  # select knows no descriptor above 1,023
            selector.register(self._pg.socket, selectors.EVENT_READ)
            selector.select(timeout_s)

    def confirm(self, lsn: int, now_us: int, *, ask: bool = False) -> None:
        """Confirm that all before ``lsn`` is stored. With ``ask`` the server answers with its place."""
        self._confirmed_lsn = lsn = max(lsn, self._confirmed_lsn)
        status = _STATUS.pack(b"r", lsn, lsn, lsn, now_us - EPOCH_US, ask)
        with translated("follow", self._where):
            self._pg.put_copy_data(status)
            self._pg.flush()

    def close(self) -> None:
        self._connection.close()


def open_stream(dsn: str, slot: str, publication: str, *, settings: str, where: str) -> ReplicationStream:
    psycopg = load_psycopg()
    with translated("follow", where):
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            replication="database",
            options=settings,
            client_encoding="UTF8",
            application_name=f"penstock capture {slot}",
        )
    try:
        return ReplicationStream(connection, slot, publication, where)
    except BaseException:
        connection.close()
        raise
