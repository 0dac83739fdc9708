"""The fold of one table in all queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..changes import NEVER, Key, NetChange
from ..choice.columns import DisallowedEvent
from ..events.debezium import ChangeEvent
from ..targets import SourceWatermark, Target
from .row_decoder import RowDecoder

if TYPE_CHECKING:
    from .fold import FoldPlan
    from .fold_result import LastTruncate, RowVersion


class ForeignServerEvent(DisallowedEvent):
    """An event of another server, whose position cannot be compared with those of its table's other events."""


class TableFold(RowDecoder):
    """Changes of rows, and how far the source's positions are."""

    def __init__(self, target: Target, plan: FoldPlan) -> None:
        super().__init__(target, plan.reading_of(target.source))
        self.done = target.progress.offsets
        self.nets: dict[int, dict[Key, NetChange]] = {}
        self.versions: list[RowVersion] = []
        self.truncate: int | None = target.progress.truncated
        self.truncates: dict[int, int] = {}
        """The highest truncate of this range, by queue. The caller that puts the queues together removes rows of other queues."""
        self.new_truncate: LastTruncate | None = None
        self.count = 0
        self.last: dict[int, ChangeEvent] = {}
        self.newest = {queue: one.position for queue, one in target.progress.watermarks.items()}
        """The highest position, by queue."""
        self.behind = {queue: one.behind if plan.guard else 0 for queue, one in target.progress.watermarks.items()}
        self.origins = {queue: one.origins for queue, one in target.progress.watermarks.items()}
        """The servers of these positions, by queue."""

    def watermarks(self) -> dict[int, SourceWatermark]:
        watermarks = {
            queue: SourceWatermark(position, self.behind[queue], self.origins.get(queue, ()))
            for queue, position in self.newest.items()
        }
        return {queue: one for queue, one in watermarks.items() if one != self.target.progress.watermarks.get(queue)}

    def check_origin(self, queue: int, change: ChangeEvent) -> None:
        """Raise `ForeignServerEvent` for a new server's position that may be earlier than the others'."""
        known, position = self.origins.get(queue, ()), change.position
        if not known or change.origin in known or change.origin is None or position is None:
            return
        if position < self.newest.get(queue, NEVER):
            raise ForeignServerEvent(
                f"it comes from server {change.origin} and lies behind what server {', '.join(known)} has told: the source has moved to another "
                "server, whose positions say nothing beside those. Let it send a new snapshot, and go on with guard='offset' (--guard offset)"
            )

    def advance(self, queue: int, position: int, origin: str | None = None) -> None:
        if origin is not None and origin not in (known := self.origins.get(queue, ())):
            self.origins[queue] = (*known, origin)
        if position >= self.newest.get(queue, NEVER):
            self.newest[queue], self.behind[queue] = position, 0
        else:
            self.behind[queue] += 1

    def note(self, truncate: LastTruncate) -> None:
        self.new_truncate = max(self.new_truncate or truncate, truncate)
