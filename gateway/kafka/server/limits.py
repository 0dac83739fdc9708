"""What connections hold of one process, whoever is at their other ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ....log.limits import KIB, MIB

OVERHEAD_BYTES: Final = 4 * KIB
"""What a request takes beside its frame, about."""
BATCH_BYTES_MAX: Final = 8 * MIB
"""The largest record batch as it is sent."""
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
    address_connections_per_s: float = 32.0
    """New connections of an address, beyond which one is closed."""
    address_connections_at_once: int = 1_024
    """New connections at once, where none came before."""
    idle_s: float = 600.0
    """A connection without requests for this time is closed, as Kafka does."""
    frame_s: float = 60.0
    """The time in which a request comes whole."""
    handshake_s: float = 10.0
    """The time of a TLS handshake."""
    stranger_request_bytes: int = 8 * KIB
    """The largest request before a proof of identity, where one is asked for; the same for the next two."""
    stranger_bytes: int = 64 * KIB
    """The requests under way of a connection."""
    proof_s: float = 30.0
    """The time for the proof. A connection without is closed."""
