"""Sends a stream of change events at a pace, from where an earlier instance came to: ``… producer LAKE BLOCKS PAUSE_S``, with so long a linger."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby

import penstock
from tests.spark.sync.streams import TOPIC, Row, event

EVENTS_AT_ONCE = 5


def changes(blocks: int) -> Iterator[Row]:
    """Blocks of events that update, insert, delete and truncate, now and then bring a column or a table, and keep their size."""
    for block in range(blocks):
        at = 100 + block * 20
        for number in range(3):
            key = (block + number) % 5
            yield event("u", "a", {"id": key}, {"id": key, "n": block * 10 + number, f"c{block // 20}": f"{block}"}, at=at + number)
        yield event("c", "b", {"id": block}, {"id": block, "large": "x" * 10 + str(block)}, at=at + 4)
        yield event("u", "b", {"id": block}, {"id": block, "large": "__debezium_unavailable_value"}, at=at + 5)
        if block:
            yield event("d", "b", {"id": block - 1}, before={"id": block - 1}, at=at + 6)
        if block % 40 == 39:
            yield event("t", "b", None, at=at + 7)
        if block % 5 == 4:
            yield event("c", f"new{block // 100}", {"id": block}, {"id": block, "v": True}, at=at + 8)


def main(lake_url: str, blocks: str, pause_s: str) -> None:
    linger = timedelta(seconds=float(pause_s))
    with penstock.connect(lake_url, maintenance=False) as lake, lake.producer(TOPIC, name="source", linger=linger) as producer:
        first = producer.last_sequence + 1
        for numbers, batch in groupby(enumerate(changes(int(blocks))), key=lambda one: one[0] // EVENTS_AT_ONCE):
            if (numbers + 1) * EVENTS_AT_ONCE <= first:
                continue
            receipts = []
            for number, one in batch:
                group = json.dumps(one["key"]) if one.get("key") else "-"
                receipts.append(producer.send(penstock.Message(json.dumps(one).encode(), message_group=group), sequence=number))
            receipts[-1].result()


if __name__ == "__main__":
    main(*sys.argv[1:])
