"""The rows to compare, which can be read repeatedly and stay the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(Protocol):
    """One table."""

    @property
    def name(self) -> str: ...

    def columns(self) -> Sequence[str]: ...

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, in any order, perhaps with only these ``columns``. Batches may lack columns that are NULL in all their rows."""
