"""Compaction, retention, trimming and collection on a topic in memory: what they may take, what they never take, and any two at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa
import pytest

from penstock.log.checkpoints import encode_checkpoint
from penstock.log.errors import DataDamaged, InternalError, PenstockError
from penstock.log.header import CloseJob
from penstock.log.limits import TRIM_GRACE_MS, VALIDITY_ENTRIES
from penstock.log.settings import TopicSettings
from penstock.log.state import State
from penstock.log.stores.faults import Fault, FaultKind, FaultStore
from penstock.log.stores.protocol import Put
from penstock.log.stores.wrapper import Call, StoreWrapper
from penstock.log.table.actions import Commit
from penstock.log.table.agreement import Agreement
from penstock.log.table.collector import Collector
from penstock.log.table.compactor import check_merged, compact_once
from penstock.log.table.delta import DeltaLog
from penstock.log.table.maintenance import Maintenance, MaintenanceOptions
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import Policy, retain_once
from penstock.log.table.rowhash import RowHash
from penstock.log.table.trimmer import Trimmed, read_floor_object
from penstock.log.verify import verify
from tests.log.table.readers import YieldingStore, queue_rows, snapshot_of, table_rows
from tests.log.table.upkeep import compared, publish, trim
from tests.log.topics import LogWriter

T = TypeVar("T")


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def topic(entries: int, *, publish_every: int = 1) -> LogWriter:
    log = await LogWriter().create()
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for n in range(entries):
        await log.send({n % 4: 2, 0: 1}, staged=n % 7 == 3)
        if n % publish_every == 0:
            await publisher.publish_once()
    await publisher.publish_once()
    return log


def maintenance(log: LogWriter, store: object = None, **options: object) -> Maintenance:
    return Maintenance(
        store or log.store,  # type: ignore[arg-type]
        log.paths,
        log.record,
        log.runtime,
        log.append_actions,  # type: ignore[arg-type]
        MaintenanceOptions(**options),  # type: ignore[arg-type]
    )


def delta_of(log: LogWriter) -> DeltaLog:
    return DeltaLog(log.store, log.paths, log.record.table, log.runtime)


async def keys(log: LogWriter, under: str) -> list[str]:
    return [info.key for info in await log.store.list(log.paths.root + under)]


# --- compaction


def test_compaction_changes_files_and_not_rows() -> None:
    async def test() -> None:
        log = await topic(20)
        before = {queue: await queue_rows(log, queue) for queue in range(4)}
        files_before = len((await snapshot_of(log)).all_files)
        done = await compact_once(log.store, delta_of(log), log.runtime, fan_in=3)
        snapshot = await snapshot_of(log)
        assert done.files > 10
        assert len(snapshot.all_files) < files_before
        assert len(snapshot.removed) == done.files
        for queue, rows in before.items():
            assert (await queue_rows(log, queue)).equals(rows)
        assert (await compact_once(log.store, delta_of(log), log.runtime, fan_in=3)).files == 0

    run(test)


def test_a_compaction_whose_sources_retention_took_is_dropped() -> None:
    async def test() -> None:
        log = await topic(10)
        compacting, retaining = delta_of(log), delta_of(log)
        store = YieldingStore(log.store, 0)

        class Interrupting(DeltaLog):
            async def commit(self, commit: Commit, **arguments: object) -> bool:
                await retain_once(log.store, retaining, log.runtime, Policy(timedelta(seconds=1), None))
                return await super().commit(commit, **arguments)  # type: ignore[arg-type]

        compacting = Interrupting(store, log.paths, "table", log.runtime)
        log.clock.advance(hours=1)
        assert (await compact_once(store, compacting, log.runtime, fan_in=3)).files == 0
        assert await table_rows(log) == {}

    run(test)


def test_a_merge_that_changes_rows_is_found_out() -> None:
    async def test() -> None:
        log = await topic(10)
        one, two = (await snapshot_of(log)).files[0][:2]
        data = (await log.store.get(log.paths.table("table") + one.path)).data
        source = RowHash()
        source.update(await queue_rows(log, 0, two.first_offset, two.first_offset + one.rows))
        with pytest.raises(DataDamaged, match="changed rows"):
            check_merged(data, source, expected_rows=one.rows, where="here")
        with pytest.raises(DataDamaged, match="number of rows"):
            check_merged(data, source, expected_rows=one.rows + 1, where="here")

    run(test)


def test_a_damaged_file_stops_the_compaction_of_its_own_queue_only() -> None:
    async def test() -> None:
        log = await topic(20)
        before = await snapshot_of(log)
        key = log.paths.table("table") + before.files[1][0].path
        data = bytearray((await log.store.get(key)).data)
        data[30] ^= 1
        await log.store.put(key, bytes(data), mode=Put.REPLACE)
        with pytest.raises(DataDamaged, match=before.files[1][0].path):
            await compact_once(log.store, delta_of(log), log.runtime, fan_in=3)
        after = await snapshot_of(log)
        assert after.files[1] == before.files[1]
        assert all(len(after.files[queue]) < len(before.files[queue]) for queue in (0, 2, 3))

    run(test)


# --- retention


def test_retention_keeps_positions_and_respects_the_guard() -> None:
    async def test() -> None:
        log = await topic(12)
        log.clock.advance(hours=80)
        rows = await retain_once(log.store, delta_of(log), log.runtime, Policy(timedelta(days=3), None), guards={0: 5})
        snapshot = await snapshot_of(log)
        assert rows > 10
        assert list(snapshot.files) == [0]
        assert snapshot.start(0) == snapshot.files[0][0].first_offset <= 5
        assert [snapshot.start(queue) for queue in (1, 2, 3)] == list(log.state.next_offsets)[1:]
        assert [snapshot.end(queue) for queue in range(4)] == list(log.state.next_offsets)
        await log.send({1: 1})
        await publish(log)
        assert (await queue_rows(log, 1)).column("offset").to_pylist() == [log.state.next_offsets[1] - 1]

    run(test)


# --- trimming


def test_the_floor_rises_to_a_verified_checkpoint_and_stands_an_hour_before_anything_goes() -> None:
    async def test() -> None:
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

    run(test)


def test_a_checkpoint_that_is_not_what_the_log_folds_to_never_becomes_the_floor() -> None:
    async def test() -> None:
        log = await topic(150, publish_every=50)
        key = log.paths.checkpoint(128)
        await log.store.put(key, (await log.store.get(key)).data[:-3], mode=Put.REPLACE)
        assert (await trim(log))[0] == 64
        log.clock.advance(hours=2)
        await log.store.put(key, encode_checkpoint(State(entry=128)), mode=Put.REPLACE)  # whole, and wrong
        assert (await trim(log))[0] == 64

    run(test)


def test_a_missing_checkpoint_is_written_by_the_trimmer() -> None:
    async def test() -> None:
        log = await topic(70, publish_every=50)
        expected = (await log.store.get(log.paths.checkpoint(64))).data
        await log.store.delete(log.paths.checkpoint(64))
        assert (await trim(log))[0] == 64
        assert (await log.store.get(log.paths.checkpoint(64))).data == expected

    run(test)


def test_a_log_whose_rows_the_table_lacks_is_not_trimmed() -> None:
    async def test() -> None:
        log = await topic(70, publish_every=10)
        delta = delta_of(log)
        snapshot = await delta.refresh()
        victim = snapshot.files[2][1]
        await delta.commit(Commit("DELETE", removes=(victim,)), on=snapshot, started_s=delta.now_s)  # by a stranger, or a bug
        with pytest.raises(DataDamaged, match="log and table differ"):
            await compared(log)
        assert (await read_floor_object(log.store, log.paths)).number == 0

    run(test)


def test_large_entries_are_compared_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a round compares: of eight staged objects, Arrow never holds the rows of more than two or three."""
    held_bytes: list[int] = []
    before_bytes = 0
    take = Agreement.take

    async def weighed(self: Agreement, rows: pa.Table) -> None:
        held_bytes.append(pa.total_allocated_bytes() - before_bytes)
        await take(self, rows)

    async def test() -> None:
        nonlocal before_bytes
        log = await LogWriter().create()
        for _ in range(8):
            await log.send({0: 8000}, staged=True)
        await publish(log)
        monkeypatch.setattr(Agreement, "take", weighed)
        before_bytes = pa.total_allocated_bytes()
        await compared(log)
        assert len(held_bytes) == 8
        assert max(held_bytes) < 3 * held_bytes[0]

    run(test)


def test_what_retention_took_or_the_table_names_as_lost_does_not_stop_trimming() -> None:
    async def test() -> None:
        log = await LogWriter().create()
        publisher = Publisher(log.store, log.paths, log.record, log.runtime)
        await log.send({0: 2}, staged=True, job="gone")
        await log.store.delete(f"{log.paths.root}staged/jobs/gone/part.parquet")
        for n in range(70):
            await log.send({n % 4: 1})
        await publisher.publish_once()
        log.clock.advance(hours=100)
        await retain_once(log.store, delta_of(log), log.runtime, Policy(timedelta(days=3), None))
        assert (await trim(log))[0] == 64

    run(test)


# --- collection


def collector(log: LogWriter) -> Collector:
    return Collector(log.store, log.paths, delta_of(log), log.runtime, log.append_actions)  # type: ignore[arg-type]


def test_orphans_go_after_two_days_and_removed_files_after_seven() -> None:
    async def test() -> None:
        log = await topic(12)
        await compact_once(log.store, delta_of(log), log.runtime, fan_in=3)
        removed = set((await snapshot_of(log)).removed)
        orphan = f"{log.paths.table('table')}queue=0/orphan.parquet"
        await log.store.put(orphan, b"x", mode=Put.CREATE)
        log.clock.advance(hours=47)
        assert await collector(log).collect_table() == 0
        log.clock.advance(hours=2)
        assert await collector(log).collect_table() == 1
        assert orphan not in await keys(log, "table/queue=")
        log.clock.advance(hours=24 * 5)
        assert await collector(log).collect_table() == len(removed)
        live = {log.paths.table("table") + path for path in (await snapshot_of(log)).paths}
        assert set(await keys(log, "table/queue=")) == live
        assert await table_rows(log) == log.sent

    run(test)


class PublishesAroundLists(StoreWrapper):
    """While files of the table are listed: publishes, lets days go by, lists, and publishes again."""

    def __init__(self, log: LogWriter) -> None:
        super().__init__(log.store)
        self._log = log

    async def _around(self, call: Call, run: Callable[[], Awaitable[T]]) -> T:
        if call.verb != "list":
            return await run()
        await self._publish()
        self._log.clock.advance(hours=60)
        answer = await run()
        await self._publish()
        return answer

    async def _publish(self) -> None:
        await self._log.send({0: 1})
        await Publisher(self._log.store, self._log.paths, self._log.record, self._log.runtime).publish_once()


def test_a_file_committed_before_the_list_ends_is_seen_as_live() -> None:
    """However long the collector sleeps before its LIST: a snapshot that was taken before it would not have that file."""

    async def test() -> None:
        log = await topic(3)
        delta = delta_of(log)
        before = await delta.refresh()
        of = Collector(PublishesAroundLists(log), log.paths, delta, log.runtime, log.append_actions)  # type: ignore[arg-type]
        listed, snapshot = await of.list_then_snapshot()
        log.clock.advance(hours=60)
        assert len(listed) == len(before.all_files) + 1
        assert len(snapshot.all_files) == len(before.all_files) + 2
        assert of.orphans(listed, snapshot, await log.store.clock_ms()) == []
        assert await of.collect_table() == 0
        assert await table_rows(log) == log.sent

    run(test)


async def raised(log: LogWriter) -> None:
    """Bring the floor up to the newest checkpoint, and let it stand."""
    await publish(log)
    log.clock.advance(hours=2)
    await trim(log)
    log.clock.advance(hours=2)


def test_an_old_job_is_closed_first_then_deleted_then_forgotten() -> None:
    async def test() -> None:
        log = await topic(5)
        part = log.paths.job_part("spark-1", "p")
        for key in (log.paths.job_record("spark-1"), part):
            await log.store.put(key, b"x", mode=Put.CREATE)
        assert await collector(log).collect_jobs(await read_floor_object(log.store, log.paths), log.clock.now_ms) == (0, 0, 0)
        log.clock.advance(hours=49)
        done = await collector(log).collect_once()
        assert (done.closed, done.job_objects) == (1, 0)
        assert "spark-1" in log.state.closed_jobs
        done = await collector(log).collect_once()
        assert (done.closed, done.job_objects, done.forgotten) == (0, 2, 0)
        for _ in range(VALIDITY_ENTRIES):
            await log.append()
        done = await collector(log).collect_once()
        assert (done.closed, done.job_objects, done.forgotten) == (0, 0, 1)
        assert "spark-1" not in log.state.closed_jobs

    run(test)


def test_a_linked_job_stays_as_long_as_its_entry() -> None:
    async def test() -> None:
        log = await LogWriter().create()
        await log.send({0: 2}, staged=True, job="linked")
        part = f"{log.paths.root}staged/jobs/linked/part.parquet"
        log.clock.advance(hours=100)
        assert (await collector(log).collect_once()).closed == 0  # its link has closed it
        await log.append(actions=(CloseJob("linked"),))  # and no later closing changes that
        for _ in range(70):
            await log.send({1: 1})
        assert (await collector(log).collect_once()).job_objects == 0
        assert part in await keys(log, "staged/")
        await raised(log)
        assert (await collector(log).collect_once()).job_objects == 1
        assert part not in await keys(log, "staged/")

    run(test)


def test_handed_objects_go_when_no_kept_entry_can_link_them() -> None:
    async def test() -> None:
        log = await topic(150, publish_every=60)
        handed = [log.paths.handed_object(tail, "name") for tail in (0, 63, 64, 140)]
        for key in handed:
            await log.store.put(key, b"x", mode=Put.CREATE)
        await raised(log)
        assert (await read_floor_object(log.store, log.paths)).number == 128
        assert (await collector(log).collect_once()).handed == 2
        assert await keys(log, "staged/handed/") == handed[2:]

    run(test)


def test_nothing_staged_goes_under_a_floor_that_has_just_risen() -> None:
    async def test() -> None:
        log = await topic(150, publish_every=60)
        key = log.paths.handed_object(0, "name")
        await log.store.put(key, b"x", mode=Put.CREATE)
        assert (await trim(log))[0] == 128
        assert (await collector(log).collect_once()).handed == 0

    run(test)


# --- all of it


def test_a_round_of_everything_leaves_a_topic_that_verifies() -> None:
    async def test() -> None:
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

    run(test)


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowCapacityError("offset overflow")])
def test_a_step_that_fails_with_no_error_of_ours_is_reported_and_tried_again(error: Exception) -> None:
    """Both loops run until the step has failed twice; the step that only succeeds goes on beside it."""

    async def test() -> None:
        log = await topic(3)
        stop, told = asyncio.Event(), []

        async def fails() -> Trimmed:
            raise error

        def on_step(step: str, result: object) -> None:
            told.append((step, result))
            if len([result for step, result in told if step == "trim"]) == 2:
                stop.set()

        options = MaintenanceOptions(upkeep_interval=timedelta(0), quiet_upkeep_interval=timedelta(0))
        keeper = Maintenance(
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

    run(test)


def test_a_deleted_topic_is_emptied_though_its_files_stay_for_readers() -> None:
    async def test() -> None:
        log = await topic(5)
        await log.delete()
        log.record = type(log.record)(settings=TopicSettings(), incarnation="life-1", deleted=True)
        await maintenance(log).run_once()
        assert (await snapshot_of(log)).files == {}
        assert await keys(log, "table/queue=") != []
        log.clock.advance(hours=24 * 8)
        await maintenance(log).run_once()
        assert await keys(log, "table/queue=") == []

    run(test)


@pytest.mark.parametrize("seed", range(6))
def test_any_number_at_once_is_safe(seed: int) -> None:
    """Two of everything, interleaved at every store call and failing now and then, over days of hand-moved time."""

    async def test() -> None:
        log = await LogWriter().create()
        chance = random.Random(seed)
        log.record = type(log.record)(settings=TopicSettings(queues=4, retention=timedelta(days=2)), incarnation="life-1")
        kinds = [FaultKind.FAIL_BEFORE, FaultKind.LOST_ANSWER, FaultKind.UNDECIDED, FaultKind.REFUSED_AFTER_SUCCESS]

        def fault(_number: int, verb: str, key: str) -> Fault | None:
            return Fault(chance.choice(kinds)) if chance.random() < 0.02 else None

        def keeper() -> Maintenance:
            return maintenance(
                log,
                YieldingStore(FaultStore(log.store, fault), chance.randrange(10**6)),  # type: ignore[arg-type]
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
        await maintenance(log).run_once()
        snapshot = await snapshot_of(log)
        kept = {place: body for place, body in log.sent.items() if place[1] >= snapshot.start(place[0])}
        assert await table_rows(log) == kept
        assert snapshot.lost(0) == snapshot.lost(1) == []
        assert (await read_floor_object(log.store, log.paths)).number > 0
        report = await verify(log.store, log.paths, log.record, log.runtime)
        assert report.findings == ()

    run(test)


async def _quietly(step: Callable[[], Awaitable[object]]) -> None:
    with suppress(PenstockError):
        await step()
