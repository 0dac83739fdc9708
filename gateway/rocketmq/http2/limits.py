"""What one connection may hold of the process, whoever is at its other end."""

from __future__ import annotations

from dataclasses import dataclass

from ....log.limits import KIB, MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Http2Limits:
    """The limits of a connection, its calls and its frames."""

    calls: int = 4_096
    """The calls of a connection, also those that end. One more is refused, and the client may make it again."""
    all_calls: int = 32_768
    """The same for all connections of a process."""
    stream_window_bytes: int = 256 * KIB
    """What a client may send to one call that does not read."""
    connection_window_bytes: int = MIB
    """The same for all calls of a connection."""
    request_bytes: int = 64 * MIB
    """The largest message in."""
    answer_bytes: int = 130 * MIB
    """The largest message out, as of RocketMQ's proxy."""
    head_bytes: int = 16 * KIB
    """The largest list of headers, unpacked."""
    credit: int = 8_192
    """The frames at once that bring nothing: beyond them the connection is closed. A frame of an answer allows four more."""
    credit_per_s: float = 100.0
    """Further ones that time allows."""
    unsent_bytes: int = MIB
    """What the process keeps for a client that does not read. Beyond it the client is not read either."""
    opening_s: float = 20.0
    """The time for TLS and the first frames."""
    idle_s: float = 120.0
    """A connection without calls for this time is closed. SDKs send a heartbeat each 10 s."""
    silence_s: float = 60.0
    """A client that sent nothing for this time is asked whether it is there, and is gone after as much again."""
