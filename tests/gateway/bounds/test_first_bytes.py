"""What a client speaks, by its first bytes."""

from __future__ import annotations

import struct

import pytest

from penstock.gateway.bounds import first_bytes
from penstock.gateway.bounds.first_bytes import foreign_protocol

API_VERSIONS = struct.pack(">ihhih", 30, 18, 3, 1, 10) + b"rdkafka"
REMOTED = struct.pack(">ii", 240, 225) + b'{"code":105,'
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize(
    ("begun", "found"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", first_bytes.TLS),
        (b"GET / HTTP/1.1\r\n", first_bytes.HTTP),
        (b"OPTIONS * HTTP/1.1\r\n", first_bytes.HTTP),
        (PREFACE, first_bytes.GRPC),
        (b"PROXY TCP4 198.51.100.7", first_bytes.PROXY),
        (b"\r\n\r\n\x00\r\nQUIT\n", first_bytes.PROXY),
        (b"SSH-2.0-OpenSSH", first_bytes.SSH),
        (API_VERSIONS, first_bytes.KAFKA),
        (REMOTED, first_bytes.REMOTING),
        (b"", None),
        (b"\x16", None),
        (b"hello there", None),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", None),
    ],
)
def test_a_protocol_is_known_by_its_beginning(begun: bytes, found: str | None) -> None:
    assert foreign_protocol(begun, own="") == found


def test_the_ports_own_protocol_is_not_foreign() -> None:
    assert foreign_protocol(PREFACE, own=first_bytes.GRPC) is None
    assert foreign_protocol(API_VERSIONS, own=first_bytes.KAFKA) is None
