"""What a client speaks that came to a gateway of another protocol, by the first bytes that it sent. Pure."""

from __future__ import annotations

import re
from typing import Final

TLS: Final = "TLS: name the port with TLS to the client, or switch TLS off in it"
HTTP: Final = "HTTP: a browser, a health check or a client of another service"
GRPC: Final = "HTTP/2 as gRPC uses it: clients of RocketMQ belong to the gateway of that protocol"
KAFKA: Final = "Kafka's protocol: its clients belong to the gateway of that protocol"
REMOTING: Final = "the protocol of RocketMQ's clients before version 5: these need an SDK of version 5"
PROXY: Final = "the PROXY protocol of a load balancer: switch it off there"
SSH: Final = "SSH"
LOOKED_BYTES: Final = 20
"""The first bytes that are looked at; four are enough for most."""
_BEGINNINGS: Final = (
    (re.compile(rb"\x16\x03"), TLS),
    (re.compile(rb"PRI "), GRPC),
    (re.compile(rb"PROX|\r\n\r\n\x00\r\nQ"), PROXY),
    (re.compile(rb"SSH-"), SSH),
    (re.compile(rb"[A-Z]{3}[A-Z ]"), HTTP),
    (re.compile(rb"\x00...[\x00\x01]...\{\"", re.DOTALL), REMOTING),
    (re.compile(rb"\x00..." + rb"\x00[\x00-\x5c]" + rb"\x00[\x00-\x14]", re.DOTALL), KAFKA),  # length, API and version
)


def foreign_protocol(data: bytes, *, own: str) -> str | None:
    """The protocol of these first bytes and what to do; None: unknown, or the port's ``own``."""
    found = next((name for begins, name in _BEGINNINGS if begins.match(data)), None)
    return None if found == own else found
