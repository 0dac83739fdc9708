"""When the floor of a log rises, and what goes below it: nothing that the table has not, and nothing within the hour."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from penstock.log.errors import DataDamaged
from penstock.log.format.checkpoint import encode_checkpoint
from penstock.log.format.floor import encode_floor
from penstock.log.format.state import TopicState
from penstock.log.limits import TRIM_GRACE_MS
from penstock.log.stores.protocol import Put, Version
from penstock.log.table.comparison.ranges import Agreement
from penstock.log.table.delta.actions import CommitContent
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import RetentionPolicy, retain_once
from penstock.log.table.trimmer import LogFloor, Trimmer, read_floor_object
from tests.log.table.readers import table_rows
from tests.log.table.upkeep import compared, delta_of, keys, publish, topic, trim
from tests.log.topics import LogWriter


async def test_the_floor_rises_to_a_verified_checkpoint_and_stands_an_hour_before_anything_goes() -> None:
    log = await topic(150, publish_every=50)
    assert await trim(log, published=127) == (64, 0)
    assert await trim(log) == (64, 0)  # not within the hour
    log.clock.advance(seconds=TRIM_GRACE_MS / 1000 - 1)
    assert await trim(log) == (64, 0)
    assert len(await keys(log, "log/0")) == 151
    log.clock.advance(seconds=2)
    assert await trim(log) == (128, 64)
    assert (await keys(log, "log/0"))[0] == log.paths.entry(65)
    assert await keys(log, "log/checkpoints/") == [log.paths.checkpoint(64), log.paths.checkpoint(128)]
    log.clock.advance(hours=2)
    assert await trim(log) == (128, 64)
    assert await keys(log, "log/checkpoints/") == [log.paths.checkpoint(128)]
    assert await table_rows(log) == log.sent


async def test_a_checkpoint_that_is_not_what_the_log_folds_to_never_becomes_the_floor() -> None:
    log = await topic(150, publish_every=50)
    key = log.paths.checkpoint(128)
    await log.store.put(key, (await log.store.get(key)).data[:-3], mode=Put.REPLACE)
    assert (await trim(log))[0] == 64
    log.clock.advance(hours=2)
    await log.store.put(key, encode_checkpoint(TopicState(entry=128)), mode=Put.REPLACE)  # whole, and wrong
    assert (await trim(log))[0] == 64


async def test_a_missing_checkpoint_is_written_by_the_trimmer() -> None:
    log = await topic(70, publish_every=50)
    expected = (await log.store.get(log.paths.checkpoint(64))).data
    await log.store.delete(log.paths.checkpoint(64))
    assert (await trim(log))[0] == 64
    assert (await log.store.get(log.paths.checkpoint(64))).data == expected


def test_a_floor_has_stood_when_more_than_its_hour_is_over() -> None:
    log = LogWriter()
    trimmer = Trimmer(log.store, log.paths, log.runtime)
    floor = LogFloor(64, Version("1"), 1000)
    stood = [trimmer.has_stood(floor, 1000 + TRIM_GRACE_MS + more_ms) for more_ms in (0, 1)]
    assert stood == [False, True]
    assert trimmer.has_stood(LogFloor(), 0)


@pytest.mark.parametrize(("bound", "there"), [(63, []), (64, [64]), (127, [64]), (128, [128])])
async def test_the_newest_missing_checkpoint_that_may_be_a_floor_is_written(bound: int, there: list[int]) -> None:
    log = await LogWriter().create()
    trimmer = Trimmer(log.store, log.paths, log.runtime)
    states = {number: TopicState(entry=number) for number in (64, 128)}
    done = await trimmer.trim_once(published=bound, compared=200, states=states, whole=True)
    assert await keys(log, "log/checkpoints/") == [log.paths.checkpoint(number) for number in there]
    assert done.floor == max(there, default=0)


async def test_a_log_whose_rows_the_table_lacks_is_not_trimmed() -> None:
    log = await topic(70, publish_every=10)
    delta = delta_of(log)
    snapshot = await delta.refresh()
    victim = snapshot.files[2][1]
    await delta.commit(CommitContent("DELETE", removes=(victim,)), on=snapshot, started_s=delta.now_s)  # by a stranger, or a bug
    with pytest.raises(DataDamaged, match="log and table differ"):
        await compared(log)
    assert (await read_floor_object(log.store, log.paths)).number == 0


async def test_large_entries_are_compared_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a round compares: of eight staged objects, Arrow never holds the rows of more than two or three."""
    held_bytes: list[int] = []
    before_bytes = 0
    take = Agreement.take

    async def weighed(self: Agreement, rows: pa.Table) -> None:
        held_bytes.append(pa.total_allocated_bytes() - before_bytes)
        await take(self, rows)

    log = await LogWriter().create()
    for _ in range(8):
        await log.send({0: 8000}, staged=True)
    await publish(log)
    monkeypatch.setattr(Agreement, "take", weighed)
    before_bytes = pa.total_allocated_bytes()
    await compared(log)
    assert len(held_bytes) == 8
    assert max(held_bytes) < 3 * held_bytes[0]


async def test_what_retention_took_or_the_table_names_as_lost_does_not_stop_trimming() -> None:
    log = await LogWriter().create()
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    await log.send({0: 2}, staged=True, job="gone")
    await log.store.delete(f"{log.paths.root}staged/jobs/gone/part.parquet")
    for n in range(70):
        await log.send({n % 4: 1})
    await publisher.publish_once()
    log.clock.advance(hours=100)
    await retain_once(log.store, delta_of(log), log.runtime, RetentionPolicy(timedelta(days=3), None))
    assert (await trim(log))[0] == 64


@pytest.mark.parametrize(("more_ms", "left"), [(0, [1, 2, 3, 4]), (1, [3, 4])])
async def test_what_the_floor_has_left_behind_goes_once_it_has_stood(more_ms: int, left: list[int]) -> None:
    log = await LogWriter().create()
    for _ in range(3):
        await log.send({0: 1})
    for number in (1, 2, 3):
        await log.store.put(log.paths.checkpoint(number), b"", mode=Put.CREATE)
    foreign = log.paths.checkpoints + "notes.txt"
    await log.store.put(foreign, b"", mode=Put.CREATE)
    await log.store.put(log.paths.floor, encode_floor(2, write_id="w"), mode=Put.CREATE)
    log.clock.now_ms += TRIM_GRACE_MS + more_ms
    trimmer = Trimmer(log.store, log.paths, log.runtime)
    done = await trimmer.trim_once(published=2, compared=2, states={}, whole=False)
    assert (done.floor, done.entries, done.checkpoints) == (2, 4 - len(left), more_ms)
    assert await keys(log, "log/0") == [log.paths.entry(number) for number in left]
    checkpoints = [log.paths.checkpoint(number) for number in (1, 2, 3) if more_ms == 0 or number >= 2]
    assert sorted(await keys(log, "log/checkpoints/")) == sorted([*checkpoints, foreign])
