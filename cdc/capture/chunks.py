"""Rows of tables, sent chunk by chunk.

A chunk is one batch, recorded before it is sent: after a kill the producer's last sequence shows whether it is there.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from ...log.produce.producer import Producer
from .send_events import send_events

CHUNK_ROWS_MAX = 10_000
CHUNK_BYTES_MAX = 4 * 1024 * 1024


def is_full(rows: int, size_bytes: int) -> bool:
    return rows >= CHUNK_ROWS_MAX or size_bytes >= CHUNK_BYTES_MAX


def send_chunk(producer: Producer, chunk: pa.Table, plan: Callable[[], None], reached: Callable[[str], None]) -> None:
    """Record a chunk by ``plan``, send it, and return when it is durable."""
    plan()
    reached("chunk planned")
    receipt = send_events(producer, chunk)
    reached("chunk sent")
    receipt.result()
    reached("chunk durable")
