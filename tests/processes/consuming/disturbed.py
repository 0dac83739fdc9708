"""What keeps a process from what it promised its group."""

from __future__ import annotations

from typing import NamedTuple

KILL, STOP, FULL, FENCED = "kill", "stop", "full", "fenced"
TABLE = "table"
DIED, LEASE = "died", "lease"
"""What nobody did to it: it ended, or lost its lease."""


class Disturbed(NamedTuple):
    """Something that keeps a process from what it promised its group."""

    kind: str
    """KILL, STOP, FULL (the disk was), TABLE (that of the cells did not answer), FENCED (another took its name), DIED or LEASE."""
    process: str
    from_s: float
    until_s: float

    @property
    def is_end(self) -> bool:
        """Whether the process did nothing more."""
        return self.kind in (KILL, DIED)
