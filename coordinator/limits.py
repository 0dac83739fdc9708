"""The coordinator's limits."""

from __future__ import annotations

from ..log.limits import KIB

CELL_BYTES_MAX = 64 * KIB
"""The size of a cell above which waiting messages are spilled: busy cells are written every few hundred milliseconds."""
CELL_STORED_BYTES_MAX = 192 * KIB
"""The most bytes of a table's value, half of a DynamoDB item; the largest cell is smaller (docs/0015-bounds.md)."""
GROUP_BYTES_MAX = 128 * KIB
"""The most bytes of a group's record without its members. Changes that enlarge it further are refused."""
HEARTBEAT_BYTES_MAX = 128 * KIB
"""The most bytes of one process's heartbeat. Further consumers are refused; players of roles are always admitted."""
LETTERS_MAX = 1_000
"""The most dead letters of a queue not known to be written. Above it no message is given up."""
ACCESS_BYTES_MAX = 128 * KIB
"""The most bytes of principals and roles: some 500 principals with a secret and a role each."""
CELL_KEY_BYTES_MAX = 640
"""The longest key: of S3's 1,024 bytes, a lake's prefix needs some."""
TABLE_TIMEOUT_S = 2.0
"""The time that a remote table has for one request, well below a lease."""
