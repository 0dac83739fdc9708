"""What is compared: rows that can be read again and again, and stay the same meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(Protocol):
    """One table."""

    @property
    def name(self) -> str:
        """How messages call it."""

    def columns(self) -> Sequence[str]:
        """Every column that any row has."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, in any order. With ``columns`` it may leave out others; batches may lack columns that are NULL in all their rows."""
