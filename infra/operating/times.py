"""Times by the lake's clock. No readers of messages are imported, so the command line starts quickly. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...aio import Lake


def time_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def now_of(lake: Lake) -> datetime:
    return time_of(lake.runtime.clock.wall_ms())
