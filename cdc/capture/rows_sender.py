"""The rows of a state's pending tables, sent chunk by chunk.

After a kill the last chunk, and whether the producer has it, show where to go on. Later chunks are newer, which is harmless: a
row has the place in the log of its reading. Earlier changes are skipped when they come again, and later ones follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic

from .chunks import is_full, send_chunk
from .positions import rows_go_on_at
from .record_sender import table_of
from .records import ChangeRecord
from .resources import CaptureResources
from .state import RowKey, RowsChunk, S, SourceStateStore


class RowsSender(Generic[S]):
    """Sends rows in the order of their keys, one table after the other."""

    def __init__(
        self,
        state: S,
        resources: CaptureResources[SourceStateStore[S]],
        *,
        truncate: Callable[[str], ChangeRecord],
        on_rows: Callable[[int], None],
    ) -> None:
        """``truncate``: makes the record that empties a table. ``on_rows`` is called with the number of rows of each chunk."""
        self._resources, self._truncate, self._on_rows = resources, truncate, on_rows
        self._table: str | None = None
        self._after: RowKey | None = None
        self._rows: list[ChangeRecord] = []
        self._size_bytes = 0
        self._key: Callable[[], RowKey | None] = lambda: None
        chunk, last = state.chunk, resources.rows_producer.last_sequence
        self._next = rows_go_on_at(last, resources.producer.last_sequence)
        if chunk is not None and chunk.table in state.pending:
            after = chunk.behind(last)
            if after is not None:
                self._table, self._after = chunk.table, after
            elif chunk.is_there(last) or not chunk.begins:
                # Reading begins again with the table's first row, and what is there of it goes.
                state = replace(state, emptied=tuple(dict.fromkeys((*state.emptied, chunk.table))))
        self.state = state

    def after(self, table: str) -> RowKey | None:
        """The key to read on from; None: the table's beginning."""
        return self._after if table == self._table else None

    def add(self, table: str, row: ChangeRecord, key: Callable[[], RowKey | None]) -> None:
        """Add a row. ``key``: to read on from after it."""
        self._rows.append(row)
        self._size_bytes += len(row.body)
        self._key = key
        if is_full(len(self._rows), self._size_bytes):
            self._send(table)

    def finish(self, table: str) -> None:
        """Send the rest of a table's rows: it is done."""
        self._send(table)
        self.state = self.state.without_pending(table)
        self._resources.states.save(self.state)
        self._table = self._after = None
        self._resources.reached("table done")

    def _send(self, table: str) -> None:
        begins, rows = self._table != table, self._rows
        self._rows, self._size_bytes = [], 0
        records = [self._truncate(table), *rows] if begins and table in self.state.emptied else rows
        if not records:
            return
        last = self._key() if rows else None
        numbered = [record._replace(sequence=number) for number, record in enumerate(records, self._next)]
        self._next += len(numbered)
        chunk = RowsChunk(table, begins, None if begins else self._after, last, self._next - 1)
        state = self.state = replace(self.state, chunk=chunk)
        resources = self._resources
        send_chunk(resources.rows_producer, table_of(numbered), lambda: resources.states.save(state), resources.reached)
        self._table, self._after = table, last
        self._on_rows(len(rows))
