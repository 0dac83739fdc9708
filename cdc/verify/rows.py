"""The rows that are compared: they can be read again and again, and stay the same meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(Protocol):
    """One table."""

    @property
    def name(self) -> str:
        """The table's name in messages."""

    def columns(self) -> Sequence[str]:
        """Every column that any row has."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, in any order. With ``columns`` it may leave out others. Batches may lack columns that are NULL in all their rows."""
