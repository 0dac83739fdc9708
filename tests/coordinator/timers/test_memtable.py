"""What waits in memory counts for what it takes: not its body alone."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from penstock.coordinator.timers.options import TimerOptions
from penstock.coordinator.timers.runs.memtable import TimedRows, sizes
from penstock.log import Message
from penstock.log.lake import LogLake
from penstock.log.message.message import MESSAGE_SCHEMA
from tests.coordinator.timers.test_delivery import Played

_ROWS = [
    {"body": b"", "offset": 0},
    {"body": b"b" * 1000, "offset": 1},
    {"body": b"", "offset": 2, "properties": [("p", "v" * 400), ("quoted", "w" * 593)]},
    {"body": b"", "offset": 3, "keys": ["k" * 600, "l" * 400]},
    {"body": b"", "offset": 4, "message_group": "g" * 500, "tag": "t" * 500},
    {"body": b"b" * 100, "offset": 5, "keys": [], "properties": []},
]
_BEYOND = np.array([0, 1000, 1000, 1000, 1000, 100])


@pytest.mark.parametrize("start", [0, 2, 5])
def test_all_that_a_message_has_counts(start: int) -> None:
    batch = pa.RecordBatch.from_pylist(_ROWS, MESSAGE_SCHEMA)
    bare = sizes(batch)[0]
    assert (sizes(batch.slice(start)) - bare).tolist() == _BEYOND[start:].tolist()
    assert (sizes(batch.slice(start, 1)) - bare).tolist() == _BEYOND[start : start + 1].tolist()
    table = pa.Table.from_batches([batch.slice(start), batch])
    assert (sizes(table) - bare).tolist() == [*_BEYOND[start:], *_BEYOND]
    assert sizes(batch.slice(0, 0)).tolist() == sizes(MESSAGE_SCHEMA.empty_table()).tolist() == []


def test_large_rows_that_went_are_not_kept() -> None:
    rows = TimedRows()
    for offset in range(200):
        rows.add(pa.RecordBatch.from_pylist([{"body": b"b" * 1_000_000, "offset": offset}], MESSAGE_SCHEMA))
        rows.drop_below(offset)
    assert len(rows) == 1
    assert rows.held_bytes < 20_000_000


def test_a_flush_is_due_by_properties_alone() -> None:
    async def script(played: Played, lake: LogLake) -> None:
        producer = await lake.producer("orders")
        for number in range(30):
            producer.send(Message(b"%d" % number, properties={"p": "v" * 15_000}, delay=timedelta(hours=1)))
        await producer.close()
        await played.play_for(lake, 5, TimerOptions(flush_bytes=300_000, group_bytes=100_000))
        assert any(info.key.endswith(".parquet") for info in await played.store.list("timers/"))

    Played("properties").run(script)
