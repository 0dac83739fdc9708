"""What the collector deletes and what it never does: orphans of the table, staged jobs, objects that were handed over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.log.errors import InternalError
from penstock.log.format.header import CloseJob
from penstock.log.format.state import TopicState
from penstock.log.limits import JOB_AGE_MAX_MS, VALIDITY_ENTRIES
from penstock.log.stores.protocol import ObjectInfo, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.collector import Collector, is_old
from penstock.log.table.compactor import Compactor
from penstock.log.table.delta.delta_log import ORPHAN_AGE_MS, REMOVED_KEPT_MS, DeltaLog
from penstock.log.table.delta.segments import TableFile
from penstock.log.table.delta.snapshot import Snapshot, apply
from penstock.log.table.publisher import Publisher
from penstock.log.table.trimmer import LogFloor, read_floor_object
from tests.log.table.readers import snapshot_of, table_rows
from tests.log.table.upkeep import delta_of, keys, publish, topic, trim
from tests.log.topics import LogWriter

T = TypeVar("T")


def collector(log: LogWriter) -> Collector:
    return Collector(log.store, log.paths, delta_of(log), log.runtime, log.append_actions)  # type: ignore[arg-type]


def test_who_does_not_know_what_was_taken_out_collects_nothing() -> None:
    log = LogWriter()
    forgetful = DeltaLog(log.store, log.paths, log.record.table, log.runtime, keep_removes=False)
    with pytest.raises(InternalError, match="under its readers"):
        Collector(log.store, log.paths, forgetful, log.runtime, log.append_actions)  # type: ignore[arg-type]


async def test_orphans_go_after_two_days_and_removed_files_after_seven() -> None:
    log = await topic(12)
    await Compactor(log.store, delta_of(log), log.runtime, fan_in=3).compact_once()
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


class PublishesAroundLists(StoreWrapper):
    """While files of the table are listed: publishes, lets days go by, lists, and publishes again."""

    def __init__(self, log: LogWriter) -> None:
        super().__init__(log.store)
        self._log = log

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
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


async def test_a_file_committed_before_the_list_ends_is_seen_as_live() -> None:
    """However long the collector sleeps before its LIST: a snapshot that was taken before it would not have that file."""
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


async def raised(log: LogWriter) -> None:
    """Bring the floor up to the newest checkpoint, and let it stand."""
    await publish(log)
    log.clock.advance(hours=2)
    await trim(log)
    log.clock.advance(hours=2)


async def test_an_old_job_is_closed_first_then_deleted_then_forgotten() -> None:
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


async def test_a_linked_job_stays_as_long_as_its_entry() -> None:
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


async def test_handed_objects_go_when_no_kept_entry_can_link_them() -> None:
    log = await topic(150, publish_every=60)
    handed = [log.paths.handed_object(tail, "name") for tail in (0, 63, 64, 140)]
    for key in handed:
        await log.store.put(key, b"x", mode=Put.CREATE)
    await raised(log)
    assert (await read_floor_object(log.store, log.paths)).number == 128
    assert (await collector(log).collect_once()).handed == 2
    assert await keys(log, "staged/handed/") == handed[2:]


async def test_nothing_staged_goes_under_a_floor_that_has_just_risen() -> None:
    log = await topic(150, publish_every=60)
    key = log.paths.handed_object(0, "name")
    await log.store.put(key, b"x", mode=Put.CREATE)
    assert (await trim(log))[0] == 128
    assert (await collector(log).collect_once()).handed == 0


# --- its decisions, at their limits


@pytest.mark.parametrize(
    ("age_ms", "removed_for_ms", "is_orphan"),
    [
        (ORPHAN_AGE_MS, None, False),
        (ORPHAN_AGE_MS + 1, None, True),
        (ORPHAN_AGE_MS + 1, REMOVED_KEPT_MS, False),
        (ORPHAN_AGE_MS + 1, REMOVED_KEPT_MS + 1, True),
    ],
)
def test_a_file_is_an_orphan_only_behind_both_times(age_ms: int, removed_for_ms: int | None, is_orphan: bool) -> None:
    log = LogWriter()
    now_ms = log.clock.now_ms
    key = f"{log.paths.table('table')}queue=0/a.parquet"
    listed = [ObjectInfo(key, 1, now_ms - age_ms)]
    removed = {} if removed_for_ms is None else {"queue=0/a.parquet": now_ms - removed_for_ms}
    assert collector(log).orphans(listed, Snapshot("table", removed=removed), now_ms) == ([key] if is_orphan else [])
    in_the_table = apply(Snapshot("table"), [(0, [TableFile("queue=0/a.parquet", 0, 0, 1, 1, 1, 1, 1)])])
    assert collector(log).orphans(listed, in_the_table, now_ms) == []


def test_a_job_is_old_when_more_than_its_time_is_over() -> None:
    listed = [ObjectInfo("a", 1, modified_ms) for modified_ms in (1000, 5000)]
    assert [is_old(listed, 1000 + JOB_AGE_MAX_MS + more_ms) for more_ms in (0, 1)] == [False, True]


async def test_a_closed_job_goes_when_no_kept_entry_can_have_linked_it() -> None:
    log = await LogWriter().create()
    await log.append(actions=(CloseJob("j"),))
    decides = collector(log).may_delete
    state = TopicState(closed_jobs={"j": 2, "k": 2, "gone": 9})
    assert [await decides("k", state, LogFloor(number)) for number in (1, 2, 3)] == [False, True, True]
    assert await decides("j", state, LogFloor(1))
    assert not await decides("gone", state, LogFloor(8))


async def test_the_uploads_of_a_deleted_topic_go_without_an_entry() -> None:
    log = await LogWriter().create()
    for key in (log.paths.job_record("spark-1"), log.paths.job_part("spark-1", "p")):
        await log.store.put(key, b"x", mode=Put.CREATE)
    await log.delete()
    log.clock.advance(hours=49)
    assert await collector(log).collect_jobs(LogFloor(), log.clock.now_ms) == (2, 0, 0)
    assert log.state.entry == 2
    assert await keys(log, "staged/") == []
