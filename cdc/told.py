"""How far each queue has told a table, by the source's positions: whether its events go on where they were, or lie behind.

After a connector's restart some events come again, and lie behind until the connector is where it was. If the source has moved to a server
whose log begins anew, all events do. The guard then passes over those whose rows are there, which must not go unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class Told(NamedTuple):
    """The positions that one queue has told for one table."""

    position: int
    """The highest position of its events."""
    behind: int = 0
    """The number of events since then that lie below it."""


ByQueue: TypeAlias = Mapping[int, Told]
