"""Times by the lake's clock, without what reads messages: the command line starts quickly. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...aio import Lake


def time_of(ms: int) -> datetime:
    """A time in milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def now_of(lake: Lake) -> datetime:
    """The time by the lake's clock."""
    return time_of(lake.runtime.clock.wall_ms())
