"""A lake with one topic, for tests of what producers promise."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import penstock
from penstock.log.stores import MemoryStore


def connect(store: MemoryStore | None = None, **topic: Any) -> penstock.Lake:
    lake = penstock.connect(store=store or MemoryStore())
    lake.create_topic("orders", **{"message_type": "FIFO", "queues": 4, **topic})
    return lake


FULL = pa.table(
    {
        "body": pa.array([b"a", b"", b"c", b"d"], pa.binary()),
        "message_group": ["g1", "g2", "g1", "g3"],
        "tag": ["t", None, "v", "u"],
        "keys": pa.array([["k1", "k2"], None, [], ["k3"]], pa.list_(pa.string())),
        "properties": pa.array([[("a", "1")], None, [], [("b", ""), ("c", "2")]], pa.map_(pa.string(), pa.string())),
        "queue": pa.array([None, 2, None, 2], pa.int32()),
    }
)
"""Rows with every column that a sender may fill in."""
