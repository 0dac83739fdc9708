"""Every limit of a transaction, in one place."""

from __future__ import annotations

from ...log.limits import KIB, MIB

MESSAGES_MAX = 10_000
"""Of all topics together."""
BYTES_MAX = 64 * MIB
"""Bodies, properties, tags and keys of all messages together."""
TOPICS_MAX = 32
PARTS_MAX = 64
"""Sends to one topic; one of more than 16 MiB counts for several."""
ROOM_BYTES = 32 * KIB
"""A process whose cell is larger begins its next transaction in another one."""
