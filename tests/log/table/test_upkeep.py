"""Compaction and retention of a topic in memory, and all steps of upkeep together: what they may take, what never, any two at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pyarrow as pa
import pytest

from penstock.log.errors import DataDamaged, InternalError, PenstockError, PermissionDenied
from penstock.log.stores.faults import Fault, FaultKind, FaultStore
from penstock.log.stores.protocol import Put
from penstock.log.table.compactor import Compactor, check_merged
from penstock.log.table.comparison.row_hash import RowHash
from penstock.log.table.delta.actions import CommitContent
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.maintenance import MaintenanceOptions, TopicMaintenance
from penstock.log.table.retention import RetentionPolicy, retain_once
from penstock.log.table.trimmer import TrimResult, read_floor_object
from penstock.log.topic.settings import TopicSettings
from penstock.log.verify import verify
from tests.log.table.iceberg_readers import check_whole, listing_of, rows_of
from tests.log.table.readers import YieldingStore, queue_rows, snapshot_of, table_rows
from tests.log.table.upkeep import RefusedCommits, delta_of, keys, maintenance, publish, topic
from tests.log.topics import LogWriter
from tests.thorough import thoroughly

# --- compaction


async def test_compaction_changes_files_and_not_rows() -> None:
    log = await topic(20)
    before = {queue: await queue_rows(log, queue) for queue in range(4)}
    files_before = len((await snapshot_of(log)).all_files)
    done = await Compactor(log.store, delta_of(log), log.runtime, fan_in=3).compact_once()
    snapshot = await snapshot_of(log)
    assert done.files > 10
    assert len(snapshot.all_files) < files_before
    assert len(snapshot.removed) == done.files
    for queue, rows in before.items():
        assert (await queue_rows(log, queue)).equals(rows)
    assert (await Compactor(log.store, delta_of(log), log.runtime, fan_in=3).compact_once()).files == 0


async def test_a_compaction_whose_sources_retention_took_is_dropped() -> None:
    log = await topic(10)
    compacting, retaining = delta_of(log), delta_of(log)
    store = YieldingStore(log.store, 0)

    class Interrupting(DeltaLog):
        async def commit(self, commit: CommitContent, **arguments: object) -> bool:
            await retain_once(log.store, retaining, log.runtime, RetentionPolicy(timedelta(seconds=1), None))
            return await super().commit(commit, **arguments)  # type: ignore[arg-type]

    compacting = Interrupting(store, log.paths, "table", log.runtime)
    log.clock.advance(hours=1)
    assert (await Compactor(store, compacting, log.runtime, fan_in=3).compact_once()).files == 0
    assert await table_rows(log) == {}


async def test_files_are_merged_once_however_often_their_commit_is_refused() -> None:
    log = await topic(20)
    before = {queue: await queue_rows(log, queue) for queue in range(4)}
    refused = RefusedCommits()
    store = FaultStore(log.store, refused)
    compactor = Compactor(store, DeltaLog(store, log.paths, "table", log.runtime), log.runtime, fan_in=3)
    uploaded: list[int] = []
    for _ in range(4):
        with pytest.raises(PermissionDenied):
            await compactor.compact_once()
        uploaded.append(len(await keys(log, "table/queue=")))
    assert len(set(uploaded)) == 1
    log.clock.advance(hours=25)  # the collector may take them soon
    with pytest.raises(PermissionDenied):
        await compactor.compact_once()
    assert len(await keys(log, "table/queue=")) > uploaded[0]
    refused.on = False
    assert (await compactor.compact_once()).files > 10
    assert (await compactor.compact_once()).files == 0
    for queue, rows in before.items():
        assert (await queue_rows(log, queue)).equals(rows)


async def test_merged_files_that_were_not_committed_are_dropped_with_their_sources() -> None:
    log = await topic(10)
    log.clock.advance(hours=1)
    refused = RefusedCommits()
    store = FaultStore(log.store, refused)
    compactor = Compactor(store, DeltaLog(store, log.paths, "table", log.runtime), log.runtime, fan_in=3)
    with pytest.raises(PermissionDenied):
        await compactor.compact_once()
    await retain_once(log.store, delta_of(log), log.runtime, RetentionPolicy(timedelta(seconds=1), None))
    refused.on = False
    assert (await compactor.compact_once()).files == 0
    assert await table_rows(log) == {}


async def test_a_merge_that_changes_rows_is_found_out() -> None:
    log = await topic(10)
    one, two = (await snapshot_of(log)).files[0][:2]
    data = (await log.store.get(log.paths.table("table") + one.path)).data
    source = RowHash()
    source.update(await queue_rows(log, 0, two.first_offset, two.first_offset + one.rows))
    with pytest.raises(DataDamaged, match="changed rows"):
        check_merged(data, source, expected_rows=one.rows, where="here")
    with pytest.raises(DataDamaged, match="number of rows"):
        check_merged(data, source, expected_rows=one.rows + 1, where="here")


async def test_a_damaged_file_stops_the_compaction_of_its_own_queue_only() -> None:
    log = await topic(20)
    before = await snapshot_of(log)
    key = log.paths.table("table") + before.files[1][0].path
    data = bytearray((await log.store.get(key)).data)
    data[30] ^= 1
    await log.store.put(key, bytes(data), mode=Put.REPLACE)
    with pytest.raises(DataDamaged, match=before.files[1][0].path):
        await Compactor(log.store, delta_of(log), log.runtime, fan_in=3).compact_once()
    after = await snapshot_of(log)
    assert after.files[1] == before.files[1]
    assert all(len(after.files[queue]) < len(before.files[queue]) for queue in (0, 2, 3))


async def test_a_merged_file_is_as_old_as_the_newest_of_its_sources() -> None:
    """After an outage of maintenance too: what is about to expire is not kept for another retention, and native streams, which take files in
    the order of their times, do not get it after what was published later.
    """
    log = await topic(24)
    before = await snapshot_of(log)
    log.clock.advance(hours=71)
    assert (await Compactor(log.store, delta_of(log), log.runtime, fan_in=4).compact_once()).files
    merged = await snapshot_of(log)
    for queue, files in merged.files.items():
        assert len(files) < len(before.files[queue])
        for file in files:
            sources = [one for one in before.files[queue] if file.first_offset <= one.first_offset < file.limit_offset]
            assert file.modified_ms == max(one.modified_ms for one in sources)
        assert [one.modified_ms for one in files] == sorted(one.modified_ms for one in files)
    log.clock.advance(hours=2)
    policy = RetentionPolicy(timedelta(days=3), None)
    assert await retain_once(log.store, delta_of(log), log.runtime, policy) == len(log.sent)
    await log.send({0: 1})
    await publish(log)
    assert (await snapshot_of(log)).files[0][-1].modified_ms > max(file.modified_ms for file in merged.all_files)


# --- retention


async def test_retention_keeps_positions_and_respects_the_guard() -> None:
    log = await topic(12)
    log.clock.advance(hours=80)
    rows = await retain_once(log.store, delta_of(log), log.runtime, RetentionPolicy(timedelta(days=3), None), guards={0: 5})
    snapshot = await snapshot_of(log)
    assert rows > 10
    assert list(snapshot.files) == [0]
    assert snapshot.start(0) == snapshot.files[0][0].first_offset <= 5
    assert [snapshot.start(queue) for queue in (1, 2, 3)] == list(log.state.next_offsets)[1:]
    assert [snapshot.end(queue) for queue in range(4)] == list(log.state.next_offsets)
    await log.send({1: 1})
    await publish(log)
    assert (await queue_rows(log, 1)).column("offset").to_pylist() == [log.state.next_offsets[1] - 1]


async def test_retention_that_takes_nothing_commits_nothing() -> None:
    log = await topic(3)
    before = await snapshot_of(log)
    assert await retain_once(log.store, delta_of(log), log.runtime, RetentionPolicy(timedelta(days=3), None)) == 0
    assert await snapshot_of(log) == before


# --- all of it


async def test_a_round_of_everything_leaves_a_topic_that_verifies() -> None:
    log = await topic(130, publish_every=20)
    keeper = maintenance(log, checkpoint_versions=3, compact_fan_in=3)
    for _ in range(4):
        log.clock.advance(hours=1.1)
        await log.send({2: 1})
        assert (await keeper.run_once()).errors == {}
    statistics = keeper.statistics()
    assert statistics.floor == 128
    assert statistics.entries_trimmed == 128
    assert statistics.files_compacted > 0
    assert statistics.files == len((await snapshot_of(log)).all_files)
    assert await table_rows(log) == log.sent
    report = await verify(log.store, log.paths, log.record, log.runtime)
    assert report.findings == ()
    assert report.table_rows == len(log.sent)


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowCapacityError("offset overflow")])
async def test_a_step_that_fails_with_no_error_of_ours_is_reported_and_tried_again(error: Exception) -> None:
    """Both loops run until the step has failed twice; the step that only succeeds goes on beside it."""
    log = await topic(3)
    stop, told = asyncio.Event(), []

    async def fails() -> TrimResult:
        raise error

    def on_step(step: str, result: object) -> None:
        told.append((step, result))
        if len([result for step, result in told if step == "trim"]) == 2:
            stop.set()

    options = MaintenanceOptions(upkeep_interval=timedelta(0), quiet_upkeep_interval=timedelta(0))
    keeper = TopicMaintenance(
        log.store,
        log.paths,
        log.record,
        log.runtime,
        log.append_actions,  # type: ignore[arg-type]
        options,
        on_step=on_step,
    )
    keeper.trim = fails  # type: ignore[method-assign]
    await asyncio.wait_for(keeper.run_forever(stop), 10)
    result = dict(told)["trim"]
    assert isinstance(result, InternalError)
    assert result.__cause__ is error
    assert type(error).__name__ in keeper.statistics().errors["trim"]
    assert keeper.statistics().errors.keys() == {"trim"}


async def test_a_deleted_topic_is_emptied_though_its_files_stay_for_readers() -> None:
    log = await topic(5)
    await log.delete()
    log.record = type(log.record)(settings=TopicSettings(), incarnation="life-1", deleted=True)
    await maintenance(log).run_once()
    assert (await snapshot_of(log)).files == {}
    assert await keys(log, "table/queue=") != []
    log.clock.advance(hours=24 * 8)
    await maintenance(log).run_once()
    assert await keys(log, "table/queue=") == []


@pytest.mark.parametrize("seed", range(thoroughly(6, 2)))
async def test_any_number_at_once_is_safe(seed: int) -> None:
    """Two of everything, interleaved at every store call and failing now and then, over days of hand-moved time."""
    log = await LogWriter().create()
    chance = random.Random(seed)
    log.record = type(log.record)(settings=TopicSettings(queues=4, retention=timedelta(days=2)), incarnation="life-1")
    kinds = [FaultKind.FAIL_BEFORE, FaultKind.LOST_ANSWER, FaultKind.UNDECIDED, FaultKind.REFUSED_AFTER_SUCCESS]

    def fault(_number: int, verb: str, key: str) -> Fault | None:
        return Fault(chance.choice(kinds)) if chance.random() < 0.02 else None

    def keeper() -> TopicMaintenance:
        return maintenance(
            log,
            YieldingStore(FaultStore(log.store, fault), chance.randrange(10**6)),  # type: ignore[arg-type]
            iceberg=True,
            commit_bytes=chance.choice([3000, 10**6]),
            checkpoint_versions=3,
            compact_fan_in=3,
        )

    keepers = [keeper() for _ in range(2)]
    for _ in range(5):
        for n in range(chance.randrange(16, 26)):
            await log.send(
                {n % 4: 1, chance.randrange(4): 1}, staged=n % 9 == 0, job=f"job-{log.state.entry}" if n % 9 == 0 else None
            )
        steps = [step for one in keepers for step in one.steps().values()]
        chance.shuffle(steps)
        await asyncio.gather(*(_quietly(step) for step in steps))
        if chance.random() < 0.4:
            keepers[chance.randrange(2)] = keeper()  # one is killed, another starts
        log.clock.advance(hours=chance.choice([0.3, 2, 9]))
    await maintenance(log, iceberg=True).run_once()
    snapshot = await snapshot_of(log)
    listing = await listing_of(log)
    assert (listing.delta_version, rows_of(listing)) == (snapshot.version, sorted(snapshot.paths))
    await check_whole(log)
    kept = {place: body for place, body in log.sent.items() if place[1] >= snapshot.start(place[0])}
    assert await table_rows(log) == kept
    assert snapshot.lost(0) == snapshot.lost(1) == []
    assert (await read_floor_object(log.store, log.paths)).number > 0
    report = await verify(log.store, log.paths, log.record, log.runtime)
    assert report.findings == ()


async def _quietly(step: Callable[[], Awaitable[object]]) -> None:
    with suppress(PenstockError):
        await step()
