"""Rows in memory, to be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class InMemory:
    """A table cut into batches."""

    table: pa.Table
    rows_a_batch: int = 7
    name: str = "t"

    def columns(self) -> Sequence[str]:
        return self.table.schema.names

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        table = self.table if columns is None else self.table.select([name for name in columns if name in self.table.schema.names])
        yield from table.to_batches(self.rows_a_batch)
