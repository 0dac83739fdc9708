"""Every limit of the coordinator, in one place."""

from __future__ import annotations

from ..log.limits import KIB

CELL_BYTES_MAX = 64 * KIB
"""The size of a cell above which messages that can wait do not enlarge it. A busy cell is written every few hundred milliseconds, and
each KiB is paid for."""
CELL_STORED_BYTES_MAX = 192 * KIB
"""The most bytes that a table takes, half of a DynamoDB item. Changes that advance or make room in a full cell must always fit, however
large its numbers have grown. The largest possible cell is smaller (docs/0015-bounds.md)."""
GROUP_BYTES_MAX = 128 * KIB
"""The most bytes of a group's record without its members: settings, positions, orders. Changes that would enlarge it further are
refused, so that members can always join and leave."""
HEARTBEAT_BYTES_MAX = 128 * KIB
"""The most bytes of the consumers of one process and their topics. A consumer that does not fit is refused, as a heartbeat that cannot
be written costs all of them the lease. Players of roles do not count and are always admitted; they are few."""
LETTERS_MAX = 1_000
"""The most dead letters of a queue that are given up and not known to be written. Above it no more messages are given up."""
ACCESS_BYTES_MAX = 128 * KIB
"""The most bytes of the record of principals and roles: some 500 principals with a secret and a role each."""
CELL_KEY_BYTES_MAX = 512
"""The longest key, below the 1,024 bytes of an S3 key, so that a lake's own prefix has room before it."""
