"""Every limit of the coordinator, in one place."""

from __future__ import annotations

from ..log.limits import KIB

CELL_BYTES_MAX = 64 * KIB
"""A cell grows no further by what can wait. A busy one is written every few hundred milliseconds, and each KiB is paid for."""
CELL_STORED_BYTES_MAX = 192 * KIB
"""What a table takes, half of what a DynamoDB item holds: what moves on in a full cell, or makes room in it, must always find room, however
large its numbers have grown. The largest cell that may come about is smaller (docs/0015-bounds.md)."""
GROUP_BYTES_MAX = 128 * KIB
"""Of a group's record without its members: settings, positions, orders. Beyond it what would make it grow is refused, so that members can
always join and leave."""
HEARTBEAT_BYTES_MAX = 128 * KIB
"""Consumers of one process and their topics: one more than fits is refused, as a heartbeat that cannot be written costs all of them the lease.
Who plays roles makes room, and is always admitted; they are few.
"""
LETTERS_MAX = 1_000
"""Dead letters of a queue that are given up and not known to be written: with more, nothing more is given up."""
CELL_KEY_BYTES_MAX = 512
"""Below the 1,024 bytes of an S3 key, so that a lake's own prefix has room before it."""
