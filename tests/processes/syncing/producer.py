"""Sends a stream of change events at a pace, from where an earlier instance came to: ``… producer LAKE EVENTS PAUSE_S``, with so long a linger."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby, islice

import penstock
from tests.cdc.sync.crashes import grouped, stream, with_spoilt
from tests.cdc.sync.streams import TOPIC, Row

EVENTS_AT_ONCE = 5


def changes() -> Iterator[Row]:
    """Without an end; tables keep their size."""
    return with_spoilt(stream(10**9, per_column=8, per_truncate=40, per_table=15), every=13)


def main(lake_url: str, events: str, pause_s: str) -> None:
    linger = timedelta(seconds=float(pause_s))
    with penstock.connect(lake_url, maintenance=False) as lake, lake.producer(TOPIC, name="source", linger=linger) as producer:
        first = producer.last_sequence + 1
        for _, batch in groupby(islice(enumerate(changes()), first, int(events)), key=lambda one: one[0] // EVENTS_AT_ONCE):
            receipts = []
            for number, one in batch:
                message = penstock.Message(json.dumps(one).encode(), message_group=grouped(one))
                receipts.append(producer.send(message, sequence=number))
            receipts[-1].result()


if __name__ == "__main__":
    main(*sys.argv[1:])
