"""Sends a stream of change events at a pace, from where an earlier instance came to: ``… producer LAKE BLOCKS PAUSE_S``, with so long a linger."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby

import penstock
from tests.spark.sync.crashes import stream
from tests.spark.sync.streams import TOPIC, Row

EVENTS_AT_ONCE = 5


def changes(blocks: int) -> Iterator[Row]:
    """Of which the tables keep their size, however many there are."""
    return stream(blocks, per_column=20, per_truncate=40, per_table=100)


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
