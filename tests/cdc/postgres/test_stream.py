"""The four messages of the replication protocol. Without a server."""

from __future__ import annotations

import fcntl
import resource
import socket
import struct
from typing import Any

import pytest

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.postgres.stream import Keepalive, ReplicationStream, XLogData


class Connection:
    """Gives what libpq would: so many bytes and the message, 0 for nothing yet, -1 for the end."""

    def __init__(self, *given: tuple[int, bytes]) -> None:
        self.given = list(given)
        self.consumed = 0
        self.told: list[bytes] = []
        self.executed: list[bytes] = []
        self.socket = -1
        self.pgconn = self

    def execute(self, query: bytes) -> None:
        self.executed.append(query)

    def get_copy_data(self, _: int) -> tuple[int, bytes]:
        return self.given.pop(0)

    def consume_input(self) -> None:
        self.consumed += 1

    def put_copy_data(self, data: bytes) -> None:
        self.told.append(data)

    def flush(self) -> None:
        pass

    def get_result(self) -> None:
        """What ended it; the server may have gone without a word."""


def stream(*given: tuple[int, bytes]) -> tuple[ReplicationStream, Connection]:
    connection: Any = Connection(*given)
    return ReplicationStream(connection, "slot", "a \"b\" 'c'", "somewhere"), connection


DATA = struct.pack(">cQQq", b"w", 700, 800, 1) + b"BODY"
ALIVE = struct.pack(">cQqB", b"k", 900, 1, 1)


def test_what_comes_is_read_once_it_is_there() -> None:
    found, connection = stream((len(DATA), DATA), (0, b""), (len(ALIVE), ALIVE), (0, b""), (0, b""))
    assert connection.executed == [
        b"""START_REPLICATION SLOT "slot" LOGICAL 0/0 (proto_version '1', publication_names '"a ""b"" ''c''"')"""
    ]
    assert found.read() == XLogData(700, b"BODY")
    assert connection.consumed == 0
    assert found.read() == Keepalive(900, True)
    assert connection.consumed == 1
    assert found.read() is None
    assert connection.consumed == 2


def test_a_stream_that_the_server_has_ended_is_told() -> None:
    found, _ = stream((-1, b""))
    with pytest.raises(SourceUnavailable, match="the server has ended the stream"):
        found.read()


def test_what_was_confirmed_is_never_taken_back() -> None:
    found, connection = stream()
    found.confirm(500, 0)
    found.confirm(0, 0, ask=True)
    assert [struct.unpack(">cQQQqB", told)[1:4] for told in connection.told] == [(500, 500, 500)] * 2
    assert [told[-1] for told in connection.told] == [0, 1]


def test_it_waits_in_a_process_with_many_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_048), hard))
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD, 1_500)) as high:
        found, connection = stream()
        connection.socket = high.fileno()
        theirs.send(b"x")
        found.wait(60)
        assert high.recv(1) == b"x"
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
