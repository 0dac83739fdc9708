"""Every limit of the coordinator, in one place."""

from __future__ import annotations

from ..log.limits import KIB

CELL_BYTES_MAX = 64 * KIB
"""The size of a cell above which messages that can wait do not enlarge it: busy cells are written every few hundred milliseconds, and each
KiB is paid for.
"""
CELL_STORED_BYTES_MAX = 192 * KIB
"""The most bytes that a table takes, half of a DynamoDB item. The largest possible cell is smaller (docs/0015-bounds.md)."""
GROUP_BYTES_MAX = 128 * KIB
"""The most bytes of a group's record without its members. Changes that enlarge it further are refused."""
HEARTBEAT_BYTES_MAX = 128 * KIB
"""The most bytes of one process's consumers and topics. Further consumers are refused, as an unwritable heartbeat would cost all the lease.
Players of roles are always admitted.
"""
LETTERS_MAX = 1_000
"""The most dead letters of a queue that are not known to be written. Above it no more messages are given up."""
ACCESS_BYTES_MAX = 128 * KIB
"""The most bytes of principals and roles: some 500 principals with a secret and a role each."""
CELL_KEY_BYTES_MAX = 512
"""The longest key: an S3 key has 1,024 bytes, and a lake's prefix needs room."""
