"""Every limit of a transaction."""

from __future__ import annotations

from ...log.limits import KIB, MIB

MESSAGES_MAX = 10_000
"""The most messages, of all topics together."""
BYTES_MAX = 64 * MIB
"""The most bytes of bodies, properties, tags and keys together."""
TOPICS_MAX = 32
PARTS_MAX = 64
"""The most sends to one topic; more than 16 MiB count as several."""
ROOM_BYTES = 32 * KIB
"""The size of a process's cell above which its next transaction has another."""
