"""Every limit of the coordinator, in one place."""

from __future__ import annotations

from ..log.limits import KIB

CELL_BYTES_MAX = 64 * KIB
"""A DynamoDB item holds 400 KB, but a busy cell is written every few hundred milliseconds, and each KiB is paid for."""
CELL_KEY_BYTES_MAX = 512
"""Below the 1,024 bytes of an S3 key, so that a lake's own prefix has room before it."""
