"""Messages as the rows that filters look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.log import LOG_SCHEMA


def rows(messages: Sequence[Mapping[str, str]], keys: Sequence[Sequence[str]] | None = None) -> pa.RecordBatch:
    """One message for each dict of properties, of which TAGS is the tag; the queue is its number."""
    columns: dict[str, list[Any]] = {name: [None] * len(messages) for name in LOG_SCHEMA.names}
    columns["queue"] = list(range(len(messages)))
    columns["tag"] = [properties.get("TAGS") for properties in messages]
    columns["properties"] = [[(name, value) for name, value in one.items() if name != "TAGS"] for one in messages]
    columns["keys"] = [list(one) for one in keys or [[]] * len(messages)]
    return pa.RecordBatch.from_pydict(columns, LOG_SCHEMA)
