"""How fresh the targets were, event by event: from the topic's table and the commits of the targets, by deltalake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.cdc.delta.freshness import commits_of, stored_ms, visible_ms

from .capture import query_table

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY = 'select queue, "offset", tag, store_timestamp from t'


@dataclass(frozen=True, slots=True)
class Times:
    """The times of every event of the topic: when it was appended, and when its target showed it (-1: not yet)."""

    stored_ms: np.ndarray
    visible_ms: np.ndarray


def read_times(
    topic_table: str, target_folder: str, tables: Sequence[str], storage_options: Mapping[str, str] | None = None
) -> Times:
    """The times of the events of these tables, which the demo's messages name by their tags."""
    import pyarrow as pa
    import pyarrow.compute as pc

    topic = query_table(topic_table, _QUERY, storage_options)
    if topic is None:
        return Times(np.array([], np.int64), np.array([], np.int64))
    # The query engine has types of its own for text.
    tags = topic["tag"].cast(pa.string())
    topic = topic.drop_columns("tag")
    of_table: list[pa.Table] = [topic.filter(pc.equal(tags, table)) for table in tables]
    visible = [
        visible_ms(events, commits_of(f"{target_folder}/{table}", storage_options))
        for table, events in zip(tables, of_table, strict=True)
    ]
    return Times(np.concatenate([stored_ms(events) for events in of_table]), np.concatenate(visible))
