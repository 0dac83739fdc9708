"""How far each queue has told of a table, by the source's positions: whether its events go on where they were, or lie behind.

After a connector's restart some events come again, and lie behind until it is where it was. From a source that has moved to a server whose
log begins anew, all do, and the guard passes over those of rows that are there: that must not go unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class Told(NamedTuple):
    """What one queue has told of one table."""

    position: int
    """The highest of its events."""
    behind: int = 0
    """How many events came since that all lie below it."""


ByQueue: TypeAlias = Mapping[int, Told]
