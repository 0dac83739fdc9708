"""Sends the changes of a generated database at a pace, from where an earlier instance came to: ``… tables_producer LAKE SEED TABLES RATE``."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from itertools import islice

import penstock
from tests.cdc.sync.streams import TOPIC
from tests.processes.syncing.tables import Database

AT_ONCE = 100
"""Changes of one append; the producer waits for it."""


def main(lake_url: str, seed: str, tables: str, rate: str) -> None:
    linger = timedelta(seconds=AT_ONCE / float(rate))
    with penstock.connect(lake_url, maintenance=False) as lake, lake.producer(TOPIC, name="source", linger=linger) as producer:
        first = producer.last_sequence + 1
        changes = enumerate(islice(Database(int(seed), int(tables)), first, None), first)
        while batch := list(islice(changes, AT_ONCE)):
            receipts = []
            for number, one in batch:
                source = one["value"]["source"]
                message = penstock.Message(json.dumps(one).encode(), message_group=f"{source['schema']}.{source['table']}")
                receipts.append(producer.send(message, sequence=number))
            receipts[-1].result()


if __name__ == "__main__":
    main(*sys.argv[1:])
