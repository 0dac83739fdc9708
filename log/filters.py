"""The filter of a subscription, written as a text: tags, or a condition on properties behind ``SQL92:``."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from .sql import SqlFilter
from .tags import SQL92, TagFilter


class Filter(Protocol):
    """Which messages pass. Two that are equal let the same pass."""

    @property
    def columns(self) -> frozenset[str]:
        """What it looks at."""
        ...

    def apply(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """The rows that pass, in their order."""
        ...


def filters_of(tags: str | None, where: str | None) -> list[Filter]:
    """What a reader is told, of which all must hold: tags, and a condition on properties. Raises as `parse_filter` does."""
    return [TagFilter.parse(tags), *([] if where is None else [SqlFilter.parse(where)])]


def parse_filter(text: str | None) -> Filter:
    """``paid || refunded``: with one of these tags; ``SQL92: price > 10 AND region = 'north'``: for which that is true (docs/0012); ``*``,
    the empty text and None: all. Raises `InvalidArgument`, and `LimitExceeded` for an expression that is too long or nested too deeply.
    """
    if isinstance(text, str) and text.lstrip().startswith(SQL92):
        return SqlFilter.parse(text.lstrip().removeprefix(SQL92).lstrip())  # columns are counted in what the error shows
    return TagFilter.parse(text)
