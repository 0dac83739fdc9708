"""The side table of a sync: events and values that were not applied, with the reasons, each in one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from ....log.errors import InvalidArgument
from ....log.schema.fields import PrimitiveType
from ...changes import ALWAYS, NetChange
from ...events.sources import TableId, named
from ...fold.rejected_events import RejectedEvent
from ...target import Target, TargetColumn, TargetOwner, TargetProgress, TargetRefused, check_owner
from ..backends.backend import Backend, check_done
from ..backends.merge_rows import batch_of, rows_schema

_COLUMNS = (
    TargetColumn("topic", PrimitiveType.STRING),
    TargetColumn("life", PrimitiveType.BIGINT),
    TargetColumn("queue", PrimitiveType.BIGINT),
    TargetColumn("offset", PrimitiveType.BIGINT),
    TargetColumn("column", PrimitiveType.STRING),
    TargetColumn("table", PrimitiveType.STRING),
    TargetColumn("action", PrimitiveType.STRING),
    TargetColumn("key", PrimitiveType.STRING),
    TargetColumn("reason", PrimitiveType.STRING),
    TargetColumn("body", PrimitiveType.STRING),
    TargetColumn("stored_at", PrimitiveType.TIMESTAMP),
)
_KEY = ("topic", "life", "queue", "offset", "column")
"""The event's place, and the value's column, make a repeated row the same row."""


class RejectedTable:
    """The side table of one driver, made for the first row."""

    def __init__(self, backend: Backend, owner: TargetOwner, name: str, *, by_position: bool, adopt: bool, above: int) -> None:
        """``above``: a number above all commits of earlier runs."""
        self._backend, self._owner = backend, owner
        self._by_position, self._adopt = by_position, adopt
        self._target = Target(TableId(None, name), name, _COLUMNS, _KEY, TargetProgress(commits=above))
        self.there = False

    def find(self) -> None:
        """Find the table. Raises `InvalidArgument` for a foreign one."""
        tables, path = self._backend.tables, self._backend.tables.path(self._target.name)
        found = tables.find(self._target.name)
        if found is None:
            return
        try:
            written = check_owner(path, found.written, self._owner, adopt=self._adopt)
        except TargetRefused as error:
            raise self._foreign(path, error.observed) from error
        if missing := [column for column in _COLUMNS if column not in found.columns]:
            raise self._foreign(path, f"no column {missing[0].name} {missing[0].type}")
        commits = max(self._target.progress.commits, 0 if written is None else written.progress.commits)
        self._target, self.there = replace(self._target, progress=TargetProgress(commits=commits)), True

    def make(self, *, check: Callable[[], None]) -> None:
        if not self.there:
            self.find()
        if not self.there:
            check()
            self._backend.tables.create(self._target, self._owner)
            self.find()  # another sync may have made it at the same time

    def write(self, events: Sequence[RejectedEvent], ends: Mapping[int, int], *, check: Callable[[], None]) -> None:
        """Write the rows that are missing, in one commit. ``ends``: the batch's. Calls ``check`` before each attempt."""
        tables = self._backend.tables
        target = replace(self._target, progress=TargetProgress(ends, commits=self._target.progress.commits + 1))
        schema = rows_schema(target, by_position=self._by_position)
        batch = batch_of(target, schema, [self._row(one) for one in events])
        rows = self._backend.rows_of(pa.Table.from_batches([batch], schema))
        if not tables.merge(target, rows, self._owner, partial=False, check=check):
            check_done(tables, target, self._owner, check=check)
        self._target = target

    def _row(self, one: RejectedEvent) -> tuple[tuple[object, ...], NetChange]:
        key = (self._owner.topic, self._owner.life, *one.place, _writable(one.column))
        table = None if one.source is None else _writable(named(one.source))
        key_of_row, body = (None if text is None else _writable(text) for text in (one.key, one.body))
        values = (*key, table, one.action, key_of_row, _writable(one.reason), body, one.time_us)
        return key, NetChange(put=True, values=values, column_positions=None, position=None, applies_up_to=ALWAYS, place=one.place)

    def _foreign(self, path: str, observed: object) -> InvalidArgument:
        return InvalidArgument(
            "the table of rejected events is another's",
            operation="sync",
            object=path,
            expected=f"no table, or one that sync {self._owner.name} of topic {self._owner.topic} has written",
            observed=observed,
            hint="give this sync's another name: rejected='_…' (--rejected)",
        )


def _writable(text: str) -> str:
    """The text with ? for half surrogate pairs, which JSON allows."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
