"""Every row of the log comes to the table exactly once, whoever publishes and whatever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.log.errors import PenstockError, PermissionDenied
from penstock.log.format.header import Created
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.schema.topic_schema import TopicSchema
from penstock.log.stores.faults import Fault, FaultKind, FaultStore, scripted_faults
from penstock.log.stores.protocol import Put
from penstock.log.table.comparison.row_hash import RowHash
from penstock.log.table.delta.segments import TableFile
from penstock.log.table.publisher import QUIET_ENTRIES, Publisher, PublishResult, gaps
from tests.log.table.readers import YieldingStore, queue_rows, snapshot_of, table_rows
from tests.log.table.upkeep import RefusedCommits, keys
from tests.log.topics import LogWriter
from tests.thorough import thoroughly


def row_digest(rows: Iterable[pa.RecordBatch | pa.Table]) -> tuple[int, str]:
    hasher = RowHash()
    for some in rows:
        hasher.update(some)
    return hasher.rows, hasher.hexdigest()


def publisher(log: LogWriter, store: object = None, **options: int) -> Publisher:
    return Publisher(store or log.store, log.paths, log.record, log.runtime, **options)  # type: ignore[arg-type]


async def publish_all(of: Publisher) -> list[PublishResult]:
    rounds = [await of.publish_once()]
    while not rounds[-1].caught_up:
        rounds.append(await of.publish_once())
    return rounds


async def test_rows_of_entries_and_of_staged_objects_come_in_order_one_file_a_queue_and_commit() -> None:
    log = await LogWriter().create()
    for n in range(9):
        await log.send({0: 2, n % 4: 3}, staged=n % 3 == 0)
    rounds = await publish_all(publisher(log))
    assert [done.entries for done in rounds] == [10]
    assert rounds[0].rows == len(log.sent)
    assert rounds[0].lag_ms == 8000  # since the first row; the topic was created a second before
    assert await table_rows(log) == log.sent
    snapshot = await snapshot_of(log)
    assert {queue: len(files) for queue, files in snapshot.files.items()} == {0: 1, 1: 1, 2: 1, 3: 1}
    assert snapshot.published == log.state.entry
    assert [snapshot.end(queue) for queue in range(4)] == list(log.state.next_offsets)


async def test_a_second_round_and_a_second_publisher_add_nothing() -> None:
    log = await LogWriter().create()
    await log.send({1: 3})
    first, second = publisher(log), publisher(log)
    await publish_all(first)
    version = (await snapshot_of(log)).version
    assert (await first.publish_once(), await second.publish_once()) == (PublishResult(), PublishResult())
    assert (await snapshot_of(log)).version == version
    await log.send({1: 1, 2: 1})
    assert (await second.publish_once()).rows == 2
    await publish_all(first)  # whose view of the table is old now
    assert await table_rows(log) == log.sent


@pytest.mark.parametrize("seed", range(thoroughly(12, 3)))
async def test_publishers_side_by_side_are_harmless(seed: int) -> None:
    log = await LogWriter().create()
    several = [publisher(log, YieldingStore(log.store, seed * 10 + n), commit_bytes=6000) for n in range(3)]
    for n in range(12):
        await log.send({n % 4: 2, 0: 1}, staged=n % 5 == 0)
        if n % 4 == 0:
            await asyncio.gather(*(one.publish_once() for one in several))
    await asyncio.gather(*(publish_all(one) for one in several))
    assert await table_rows(log) == log.sent


@pytest.mark.parametrize(
    "kind", [FaultKind.FAIL_BEFORE, FaultKind.LOST_ANSWER, FaultKind.REFUSED_AFTER_SUCCESS, FaultKind.UNDECIDED]
)
def test_a_fault_at_any_call_neither_loses_nor_doubles_rows(kind: FaultKind) -> None:
    async def run() -> int:
        call = 0
        while True:
            log = await LogWriter().create()
            await log.send({0: 2})
            await log.send({0: 1, 3: 2}, staged=True)
            store = FaultStore(log.store, scripted_faults({call: Fault(kind)}))
            broken = publisher(log, store)
            for _ in range(3):
                with suppress(PenstockError):
                    await publish_all(broken)
                await log.send({0: 1})
            await publish_all(publisher(log))
            assert await table_rows(log) == log.sent, (kind, call)
            if store.calls <= call:
                return call
            call += 1

    assert asyncio.run(run()) > 15


async def test_rows_are_uploaded_once_however_often_their_commit_is_refused() -> None:
    log = await LogWriter().create()
    await publish_all(publisher(log))
    await log.send({0: 2, 1: 3})
    refused = RefusedCommits()
    one = publisher(log, FaultStore(log.store, refused))
    for _ in range(5):
        with pytest.raises(PermissionDenied):
            await one.publish_once()
        await log.send({0: 1})
    assert len(await keys(log, "table/queue=")) == 2
    refused.on = False
    assert [done.entries for done in await publish_all(one)] == [2, 5]
    assert len(await keys(log, "table/queue=")) == 3
    assert await table_rows(log) == log.sent


async def test_what_was_uploaded_a_day_ago_is_not_committed_as_it_may_be_collected() -> None:
    log = await LogWriter().create()
    await publish_all(publisher(log))
    await log.send({0: 2})
    one = publisher(log, FaultStore(log.store, RefusedCommits()))
    with pytest.raises(PermissionDenied):
        await one.publish_once()
    log.clock.advance(hours=25)
    with pytest.raises(PermissionDenied):
        await one.publish_once()
    assert len(await keys(log, "table/queue=")) == 2
    log.clock.advance(hours=23)
    with pytest.raises(PermissionDenied):
        await one.publish_once()
    assert len(await keys(log, "table/queue=")) == 2


async def test_uploaded_work_is_dropped_when_another_published_its_rows() -> None:
    log = await LogWriter().create()
    await publish_all(publisher(log))
    await log.send({0: 2})
    refused = RefusedCommits()
    one = publisher(log, FaultStore(log.store, refused))
    with pytest.raises(PermissionDenied):
        await one.publish_once()
    await publish_all(publisher(log))
    refused.on = False
    await log.send({0: 1})
    await publish_all(one)
    assert await table_rows(log) == log.sent


async def test_a_loss_is_named_as_it_is_when_its_commit_is_tried() -> None:
    """A staged object that was put back between two tries has its rows in the table."""
    log = await LogWriter().create()
    await log.send({0: 2})
    await publish_all(publisher(log))
    await log.send({0: 3}, staged=True, job="gone")
    part = f"{log.paths.root}staged/jobs/gone/part.parquet"
    data = (await log.store.get(part)).data
    await log.store.delete(part)
    refused = RefusedCommits()
    one = publisher(log, FaultStore(log.store, refused))
    with pytest.raises(PermissionDenied):
        await one.publish_once()
    await log.store.put(part, data, mode=Put.CREATE)
    refused.on = False
    await publish_all(one)
    assert (await snapshot_of(log)).lost(0) == []
    assert await table_rows(log) == log.sent


async def test_a_staged_object_that_is_gone_leaves_a_gap_that_is_named() -> None:
    log = await LogWriter().create()
    await log.send({0: 2, 1: 1})
    await log.send({0: 3, 2: 1}, staged=True, job="gone")
    await log.send({0: 1})
    await log.store.delete(f"{log.paths.root}staged/jobs/gone/part.parquet")
    await publish_all(publisher(log))
    snapshot = await snapshot_of(log)
    assert snapshot.lost(0) == [(2, 5)]
    assert snapshot.lost(2) == [(0, 1)]
    assert snapshot.lost(1) == []
    assert sorted(await table_rows(log)) == [(0, 0), (0, 1), (0, 5), (1, 0)]
    assert snapshot.end(0) == 6


async def test_a_damaged_entry_costs_its_own_rows_only() -> None:
    log = await LogWriter().create()
    for n in range(70):  # a checkpoint at 64 leads around
        await log.send({n % 4: 1})
    await _flip(log, 40, at=-100)  # in the footer
    await publish_all(publisher(log))
    snapshot = await snapshot_of(log)
    lost = {(queue, offset) for queue in range(4) for first, limit in snapshot.lost(queue) for offset in range(first, limit)}
    assert len(lost) == 1
    assert await table_rows(log) == {place: body for place, body in log.sent.items() if place not in lost}


async def test_a_publisher_that_starts_between_damage_and_its_checkpoint_goes_on_behind() -> None:
    log = await LogWriter().create()
    for n in range(45):
        await log.send({n % 4: 1})
    await publish_all(publisher(log))
    for n in range(30):
        await log.send({n % 4: 1})
    await log.store.delete(log.paths.entry(40))  # published before it was lost
    await publish_all(publisher(log))
    assert await table_rows(log) == log.sent


async def test_rows_published_and_damaged_since_do_not_hide_those_behind_them() -> None:
    """Entry 40 was published before its rows were damaged, and its footer still tells the state that all behind it were built on."""
    log = await LogWriter().create()
    for n in range(39):
        await log.send({n % 4: 1})
    await publish_all(publisher(log))
    for n in range(39, 70):
        await log.send({n % 4: 1})
    await _flip(log, 40, at=40)
    await _flip(log, 50, at=-100)  # its footer: the verdicts of those right before it show in no later base
    await publish_all(publisher(log))
    lost = {(0, 12)}
    assert {(q, r) for q in range(4) for r in (await snapshot_of(log)).lost(q)} == {(0, (12, 13))}
    assert await table_rows(log) == {place: body for place, body in log.sent.items() if place not in lost}


async def _flip(log: LogWriter, entry: int, *, at: int) -> None:
    key = log.paths.entry(entry)
    data = bytearray((await log.store.get(key)).data)
    data[at] ^= 1
    await log.store.put(key, bytes(data), mode=Put.REPLACE)


def test_a_large_entry_becomes_several_files_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        log = await LogWriter().create()
        await log.send({0: 40, 1: 30, 2: 20}, staged=True)
        for _ in range(3):
            await log.send({0: 1, 2: 2})
        await publish_all(publisher(log))
        assert await table_rows(log) == log.sent
        files = (await snapshot_of(log)).files
        assert [len(files[queue]) for queue in range(3)] == [4, 1, 4]
        assert [file.first_offset for file in files[0]] == [0, 40, 41, 42]

    monkeypatch.setattr("penstock.log.table.publisher.FILE_BYTES_MAX", 1)
    monkeypatch.setattr("penstock.log.table.delta.segments.ROW_GROUP_BYTES", 1)
    asyncio.run(run())


async def test_a_commit_takes_entries_up_to_its_size() -> None:
    log = await LogWriter().create()
    await log.send({0: 40, 1: 30, 2: 20}, staged=True)
    await log.send({0: 1})
    rounds = await publish_all(publisher(log, commit_bytes=1000))
    assert [done.entries for done in rounds if done.entries] == [1, 1, 1]
    assert await table_rows(log) == log.sent


async def test_entries_without_rows_wait_for_company() -> None:
    log = await LogWriter().create()
    one = publisher(log)
    await publish_all(one)
    version = (await snapshot_of(log)).version
    for _ in range(QUIET_ENTRIES - 2):
        await log.append()
        await one.publish_once()
    assert (await snapshot_of(log)).version == version
    await log.append()
    await one.publish_once()
    assert (await snapshot_of(log)).published == log.state.entry


async def test_a_topic_created_again_has_a_table_of_its_own() -> None:
    log = await LogWriter().create()
    await log.send({0: 2})
    old = publisher(log)
    await publish_all(old)
    await log.send({0: 1})
    await log.delete()
    await publish_all(old)
    assert (await snapshot_of(log)).published == log.state.entry
    first_life = log.sent
    log.record = replace(log.record, incarnation="life-2", table=f"table-{log.state.entry}")
    await log.append(actions=(Created("life-2", 2, "life-1"),))
    log.sent = {}
    await log.send({0: 1, 1: 1})
    await publish_all(publisher(log))
    log.record = replace(log.record, settings=replace(log.record.settings, queues=2))
    assert await table_rows(log) == log.sent
    await publish_all(old)
    log.record = replace(log.record, table="table")
    assert await table_rows(log) == {place: body for place, body in first_life.items() if place[0] < 2}


def test_gaps() -> None:
    def offsets(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    assert gaps(5, 5, offsets()) == []
    assert gaps(5, 8, offsets()) == [(5, 8)]
    assert gaps(0, 3, offsets(0, 1, 2)) == []
    assert gaps(0, 9, offsets(1, 2, 5, 8)) == [(0, 1), (3, 5), (6, 8)]
    assert gaps(0, 9, offsets(0)) == [(1, 9)]
    with pytest.raises(PenstockError, match="disagree"):
        gaps(3, 9, offsets(2, 3))


async def test_the_same_rows_hash_alike_however_they_are_cut() -> None:
    log = await LogWriter().create()
    await log.send({0: 200})
    await publish_all(publisher(log))
    rows = await queue_rows(log, 0)
    whole = row_digest([rows])
    assert row_digest(rows.to_batches(max_chunksize=7)) == whole
    assert row_digest([rows.slice(0, 13), rows.slice(13)]) == whole
    assert row_digest([rows.slice(1)]) != whole
    assert row_digest([rows.slice(1), rows.slice(0, 1)]) != whole


@pytest.mark.parametrize("name", ["at", "lengths", "element", "key", "value", "valid"])
def test_rows_hash_alike_however_they_are_cut_whatever_their_fields_are_called(name: str) -> None:
    columns: dict[str, list[object]] = {"bigint": [1, None, 3], "string": ["a", None, "bcd"], "array<int>": [[1], None, [2, 3]]}
    for kind, values in columns.items():
        schema = TopicSchema.of(f"nested struct<{name}: {kind}>, id int")
        contents = [{"nested": {name: value}, "id": None} for value in values]
        absent = {field.name: pa.nulls(3, field.type) for field in MESSAGE_SCHEMA}
        rows = pa.table({**absent, "value": pa.array(contents, schema.arrow)})
        whole = row_digest([rows])
        assert row_digest([rows.slice(0, 1), rows.slice(1)]) == whole, kind
        assert row_digest(rows.to_batches(max_chunksize=1)) == whole, kind
        assert row_digest([rows.slice(1), rows.slice(0, 1)]) != whole, kind


async def test_file_names_are_fresh() -> None:
    log = await LogWriter().create()
    await log.send({0: 1})
    names: list[TableFile] = []
    for _ in range(2):
        other = await LogWriter().create()
        other.runtime = log.runtime  # one source of ids
        await other.send({0: 1})
        await publish_all(publisher(other))
        names += (await snapshot_of(other)).all_files
    assert len({file.path for file in names}) == 2
