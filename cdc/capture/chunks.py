"""Rows that tables have, sent chunk by chunk.

A chunk is one batch of the topic, whole or not at all, and is recorded before it is sent. So after a kill the producer's last sequence tells
whether it is there.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from ...log.produce.producer import Producer
from ..events.row_refusals import send_events

CHUNK_ROWS_MAX = 10_000
CHUNK_BYTES_MAX = 4 * 1024 * 1024


def is_full(rows: int, size_bytes: int) -> bool:
    """Whether a chunk is large enough to be sent."""
    return rows >= CHUNK_ROWS_MAX or size_bytes >= CHUNK_BYTES_MAX


def send_chunk(producer: Producer, chunk: pa.Table, plan: Callable[[], None], reached: Callable[[str], None]) -> None:
    """Send a chunk once ``plan`` has recorded it, and return when it is durable."""
    plan()
    reached("chunk planned")
    receipt = send_events(producer, chunk)
    reached("chunk sent")
    receipt.result()
    reached("chunk durable")
