"""What connections hold of one process, whoever is at their other ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ....log.limits import KIB, MIB

OVERHEAD_BYTES: Final = 4 * KIB
"""What a request takes beside its frame, about."""
OTHERS_BYTES_MAX: Final = 2 * MIB
"""The largest request without records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    """The limits of connections, of their requests' bytes and of their silence."""

    connection_bytes: int = 64 * MIB
    """The requests under way of a connection. Beyond it, the connection is not read; the same for the next two."""
    address_bytes: int = 128 * MIB
    all_bytes: int = 256 * MIB
    address_connections: int = 1_024
    """A connection beyond it is closed; the same for the next."""
    all_connections: int = 16_384
    idle_s: float = 600.0
    """A connection without requests for this time is closed, as Kafka does."""
    frame_s: float = 60.0
    """The time in which a request comes whole."""
    handshake_s: float = 10.0
    """The time of a TLS handshake."""
