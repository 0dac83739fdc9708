"""One round of compaction: what it says that it did, and what it raises once the rest is done."""

from __future__ import annotations

import pytest

from penstock.log.errors import DataDamaged
from penstock.log.stores.protocol import Put
from penstock.log.table.compactor import CompactionResult, Compactor
from tests.log.table.readers import snapshot_of
from tests.log.table.upkeep import delta_of, publish
from tests.log.topics import LogWriter


async def three_files_in_each_of_two_queues() -> LogWriter:
    log = await LogWriter(queues=2).create()
    for _ in range(3):
        await log.send({0: 1, 1: 2})
        await publish(log)
    return log


async def test_a_round_tells_what_it_merged_and_the_next_that_nothing_is_left() -> None:
    log = await three_files_in_each_of_two_queues()
    compactor = Compactor(log.store, delta_of(log), log.runtime, fan_in=3)
    done = await compactor.compact_once()
    files = (await snapshot_of(log)).files
    assert {queue: [file.rows for file in of_queue] for queue, of_queue in files.items()} == {0: [3], 1: [6]}
    assert done == CompactionResult(6, 9, sum(file.size_bytes for of_queue in files.values() for file in of_queue))
    assert await compactor.compact_once() == CompactionResult()


async def test_what_stops_one_queue_is_raised_once_the_other_is_merged() -> None:
    log = await three_files_in_each_of_two_queues()
    before = (await snapshot_of(log)).files
    damaged = before[0][1].path
    await log.store.put(log.paths.table("table") + damaged, b"damaged", mode=Put.REPLACE)
    with pytest.raises(DataDamaged, match=damaged):
        await Compactor(log.store, delta_of(log), log.runtime, fan_in=3).compact_once()
    after = (await snapshot_of(log)).files
    assert after[0] == before[0]
    assert [file.rows for file in after[1]] == [6]
