"""Rows to measure with, and the raw Parquet that ours is held against."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.log.format.sealed import ROW_GROUP_ROWS
from penstock.log.limits import TopicLimits
from penstock.log.message.arrow import check_arrow
from penstock.log.message.batch_rows import MessageIds, rows_of_arrow
from penstock.log.message.message_type import MessageType
from penstock.log.message.routing import Router

GROUPS = [f"group-{number}" for number in range(10_000)]
BODY = random.Random(1).randbytes(50).hex().encode()
"""100 bytes."""


def arrow_rows(count: int, *, groups: int = len(GROUPS)) -> pa.Table:
    """What an application hands to ``send_batch``: bodies of 100 bytes that differ, in so many of 10,000 groups."""
    numbers = np.arange(count)
    bodies = pa.array(BODY[:88].decode() for _ in range(1)).take(pa.array(np.zeros(count, np.int64)))
    import pyarrow.compute as pc

    text = pc.binary_join_element_wise(pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 12, "0"), bodies, "")
    names = pa.array(GROUPS).take(pa.array(numbers % groups))
    return pa.table({"body": text.cast(pa.binary()), "message_group": names})


def log_rows(data: pa.Table, queues: int) -> pa.Table:
    """The same rows as the log stores them."""
    checked = check_arrow(data, MessageType.FIFO, TopicLimits(), queues)
    return rows_of_arrow(checked, 0, Router(queues), producer="0" * 32, ids=MessageIds(1, 0)).table


def write_raw(rows: pa.Table, path: Path, *, defaults: bool = False) -> None:
    """One Parquet file, written and flushed: with our codec, dictionaries and row groups, or with pyarrow's defaults."""
    with path.open("wb") as file:
        if defaults:
            pq.write_table(rows, file)
        else:
            pq.write_table(
                rows,
                file,
                compression="zstd",
                compression_level=1,
                use_dictionary=["queue", "message_group", "tag", "producer"],
                write_statistics=False,
                write_page_checksum=True,
                store_schema=False,
                row_group_size=ROW_GROUP_ROWS,
            )
        file.flush()
        os.fsync(file.fileno())
