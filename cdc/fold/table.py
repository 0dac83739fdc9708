"""The fold of one table in all queues."""

from __future__ import annotations

from collections import defaultdict

from ..changes import ALWAYS, NEVER, Key, NetChange, Place, RowChange, apply_change, apply_upsert
from ..choice.columns import DisallowedEvent
from ..events.conversion import UnfitValue, check_names
from ..events.debezium import ChangeEvent
from ..target import SourceWatermark
from .fold_result import LastTruncate, RowVersion, TypesReference
from .observed_columns import ObservedColumns
from .plan import TablePlan
from .row_decoder import RowDecoder

_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


class ForeignServerEvent(DisallowedEvent):
    """An event of another server, whose position cannot be compared with those of its table's other events."""


class TableFold:
    """Changes of rows, and how far the source's positions are."""

    def __init__(self, decoder: RowDecoder, plan: TablePlan) -> None:
        self._plan, self._by_position = plan, plan.by_position
        self.decoder, self.target = decoder, decoder.target
        self.nets: defaultdict[int, dict[Key, NetChange]] = defaultdict(dict)
        """The net changes by queue and row."""
        self.versions: list[RowVersion] = []
        self.observed: ObservedColumns | None = None
        """Columns that the target lacks."""
        self.new_truncate: LastTruncate | None = None
        self.count = 0
        self.last: dict[int, ChangeEvent] = {}
        self._names: set[str] = set()
        progress = self.target.progress
        self._truncate = progress.truncated
        self._truncates: dict[int, int] = {}
        """The highest truncate of this range, by queue. The caller that puts the queues together removes rows of other queues."""
        watermarks = progress.watermarks
        self._newest = {queue: watermark.position for queue, watermark in watermarks.items()}
        self._behind = {queue: watermark.behind if plan.by_position else 0 for queue, watermark in watermarks.items()}
        self._origins = {queue: watermark.origins for queue, watermark in watermarks.items()}
        """The servers of these positions, by queue."""

    def apply(self, change: ChangeEvent, place: Place, stored_us: int) -> bool:
        """Apply an event. False: a truncate that lies before the last one. Raises `UnfitValue`."""
        queue, position = place[0], change.position if self._by_position else None
        self.last[queue] = change
        if self._by_position and change.origin is not None:
            self._check_origin(queue, change)
        if change.key and change.key.keys() != self.decoder.key_names:
            self._check_key(change)
        last = self._truncates.get(queue, self._truncate) if self._truncates else self._truncate
        outdated = position is not None and last is not None and position < last
        if outdated and change.op == "t":
            self._advance(queue, position, change.origin)
            return False
        at_us = _changed_at(change, stored_us) if self.target.history else stored_us
        if not outdated and change.op not in "dt" and not self.decoder.names.issuperset(change.row):
            self._observe(change, place)
        if not outdated and change.op not in "dt" and not self.target.history:
            # As below, without a `RowChange` for each of the most frequent events.
            key, values, former = self.decoder.upsert(change)
            self._advance(queue, position, change.origin)
            self.count += 1
            apply_upsert(self.nets[queue], key, values, position, place, former)
            return True
        row = self.decoder.row_change(change, position, place, outdated=outdated)
        self._advance(queue, position, change.origin)
        self.count += 1
        if row.op == "t":
            self._note_truncate(row, at_us)
        if self.target.history:
            self._keep_versions(row, at_us)
        else:
            apply_change(self.nets[queue], row)
        return True

    def watermarks(self) -> dict[int, SourceWatermark]:
        """The queues' new watermarks."""
        watermarks = {
            queue: SourceWatermark(position, self._behind[queue], self._origins.get(queue, ()))
            for queue, position in self._newest.items()
        }
        earlier = self.target.progress.watermarks
        return {queue: watermark for queue, watermark in watermarks.items() if watermark != earlier.get(queue)}

    def types(self) -> TypesReference | None:
        """The types that the newest event names."""
        named = (
            TypesReference(NEVER if change.position is None else change.position, change.types_name)
            for change in self.last.values()
            if change.types_name is not None
        )
        return max(named, default=None)

    def _check_origin(self, queue: int, change: ChangeEvent) -> None:
        """Raise `ForeignServerEvent` for a new server's position that may be earlier than the others'."""
        known, position = self._origins.get(queue, ()), change.position
        if not known or change.origin in known or position is None:
            return
        if position < self._newest.get(queue, NEVER):
            raise ForeignServerEvent(
                f"it comes from server {change.origin} and lies behind what server {', '.join(known)} has told: the source has moved to another "
                "server, whose positions say nothing beside those. Let it send a new snapshot, and go on with guard='offset' (--guard offset)"
            )

    def _check_key(self, change: ChangeEvent) -> None:
        """Raise `UnfitValue` where the source's key is not the target's, and rows may become one, or two."""
        key, key_names = self.target.key, self.decoder.key_names
        if self._plan.key is None:
            raise UnfitValue(
                f"its key is {', '.join(change.key)}, the target's {', '.join(key)}: has the source's primary key changed? Capture the "
                "table into a new topic, for a new target; or declare the target's key if it still tells all rows apart (keys=, --key)"
            )
        before = change.before or {}
        without_old_key = change.op == "u" and any(before.get(name) is None for name in key)
        if without_old_key and not key_names <= change.key.keys():
            raise UnfitValue(
                f"it does not say the row's key before: {', '.join(key)} is declared, the event's is {', '.join(change.key)}. Let the "
                "source log whole rows (REPLICA IDENTITY FULL)"
            )

    def _observe(self, change: ChangeEvent, place: Place) -> None:
        if self._plan.selected:
            check_names(change.row, self._names)
            self.observed = self.observed or ObservedColumns()
            self.observed.note(change, place, self.decoder.names, self._plan.value_options.of(change))

    def _note_truncate(self, row: RowChange, at_us: int) -> None:
        queue, position = row.place[0], row.position
        truncate = LastTruncate(ALWAYS if position is None else position, at_us)
        self.new_truncate = max(self.new_truncate or truncate, truncate)
        if position is not None and not self.target.history:
            self._truncates[queue] = max(self._truncates.get(queue, self._truncate or 0), position)

    def _keep_versions(self, row: RowChange, at_us: int) -> None:
        if row.former is not None:
            self.versions.append(RowVersion(row.former, "d", (None,) * len(row.values), row.position, at_us, row.place))
        self.versions.append(RowVersion(row.key, row.op, row.values, row.position, at_us, row.place))

    def _advance(self, queue: int, position: int | None, origin: str | None) -> None:
        if position is None:
            return
        if origin is not None and origin not in (known := self._origins.get(queue, ())):
            self._origins[queue] = (*known, origin)
        if position >= self._newest.get(queue, NEVER):
            self._newest[queue], self._behind[queue] = position, 0
        else:
            self._behind[queue] += 1


def _changed_at(change: ChangeEvent, stored_us: int) -> int:
    at_us = stored_us if change.time_us is None else change.time_us
    if not _FIRST_US <= at_us <= _LAST_US:
        raise UnfitValue(f"it was changed in no year from 1 to 9999: {at_us} microseconds after 1970")
    return at_us
