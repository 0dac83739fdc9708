"""The table's Delta log: commits that know their own, snapshots from any starting point, and readers that are not ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import deltalake
import duckdb
import duckdb_extension_delta
import polars as pl
import pyarrow.parquet as pq
import pytest

from penstock.log.errors import DataDamaged, ForeignObject, InternalError, RetryError, StoreUnavailable
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.stores.faults import Fault, FaultKind, FaultStore
from penstock.log.stores.protocol import Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.collector import Collector
from penstock.log.table.compactor import Compactor
from penstock.log.table.delta.actions import CommitContent
from penstock.log.table.delta.delta_log import COMMIT_LIFE_S, DAY_MS, DeltaLog
from penstock.log.table.delta.snapshot import Snapshot
from penstock.log.table.publisher import Publisher
from tests.log.table.readers import copy_to_folder, queue_rows
from tests.log.topics import LogWriter

T = TypeVar("T")


async def published(commits: int = 3, *, topic: str = "orders") -> LogWriter:
    """A topic whose table has one version more than ``commits``."""
    log = await LogWriter(topic=topic).create()
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for n in range(commits):
        await log.send({n % 4: 3, 0: 5})
        await publisher.publish_once()
    return log


def delta_of(log: LogWriter, store: object = None) -> DeltaLog:
    return DeltaLog(store or log.store, log.paths, log.record.table, log.runtime)  # type: ignore[arg-type]


async def test_following_loading_and_checkpoints_give_the_same_snapshot() -> None:
    log = await published(1)
    following = delta_of(log)
    await following.refresh()
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for n in range(5):
        await log.send({n % 3: 2})
        await publisher.publish_once()
    newest = await following.refresh()
    assert newest.version == 6
    assert await delta_of(log).refresh() == newest
    await following.write_checkpoint()
    assert await delta_of(log).refresh() == newest
    await log.store.delete(f"{following.root}_delta_log/_last_checkpoint")  # it is only a hint
    assert await delta_of(log).refresh() == newest


@pytest.mark.parametrize(
    "kind", [FaultKind.LOST_ANSWER, FaultKind.REFUSED_AFTER_SUCCESS, FaultKind.UNDECIDED, FaultKind.FAIL_BEFORE]
)
async def test_a_commit_of_unclear_outcome_is_read_back(kind: FaultKind) -> None:
    log = await published()
    delta = delta_of(log, FaultStore(log.store, lambda _, verb, key: Fault(kind) if verb == "put" and not done else None))
    done: list[bool] = []
    snapshot = await delta.refresh()

    async def commit() -> bool:
        first = asyncio.ensure_future(delta.commit(CommitContent("WRITE", txns={"x": 1}), on=snapshot, started_s=delta.now_s))
        return await first

    if kind in {FaultKind.LOST_ANSWER, FaultKind.REFUSED_AFTER_SUCCESS}:
        assert await commit()
        assert (await delta_of(log).refresh()).txns["x"] == 1
    else:  # every try fails, and none was carried out
        with pytest.raises(StoreUnavailable, match="unknown"):
            await commit()
        done.append(True)
        assert "x" not in (await delta_of(log).refresh()).txns
        assert await commit()


async def test_of_two_commits_on_one_snapshot_one_is_refused() -> None:
    log = await published()
    one, two = delta_of(log), delta_of(log)
    snapshot = await one.refresh()
    assert await one.commit(CommitContent("WRITE", txns={"one": 1}), on=snapshot, started_s=one.now_s)
    assert one.snapshot.version == snapshot.version + 1
    assert not await two.commit(CommitContent("WRITE", txns={"two": 1}), on=snapshot, started_s=two.now_s)
    assert "two" not in (await two.refresh()).txns


async def test_a_commit_is_given_up_after_a_day() -> None:
    log = await published()
    delta = delta_of(log)
    snapshot, started_s = await delta.refresh(), delta.now_s
    log.clock.advance(seconds=COMMIT_LIFE_S)
    delta.check_life(started_s)
    assert not delta.is_stale()
    log.clock.advance(seconds=1)
    assert delta.is_stale()
    with pytest.raises(RetryError, match="given up"):
        await delta.commit(CommitContent("WRITE"), on=snapshot, started_s=started_s)


async def test_old_versions_go_behind_an_old_checkpoint_and_a_stale_process_notices() -> None:
    log = await published(4)
    stale = delta_of(log)
    await stale.refresh()
    delta = delta_of(log)
    await delta.refresh()
    await delta.write_checkpoint()
    assert await delta.clean_up(kept_ms=3 * DAY_MS) == 0
    log.clock.advance(hours=24 * 3)
    assert await delta.clean_up(kept_ms=3 * DAY_MS) == 0
    log.clock.advance(hours=24)
    await log.send({0: 1})
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    assert await delta.clean_up(kept_ms=3 * DAY_MS) == 4
    names = [info.key.rpartition("/")[2] for info in await log.store.list(f"{delta.root}_delta_log/0")]
    assert names == [f"{4:020d}.checkpoint.parquet", f"{4:020d}.json", f"{5:020d}.json"]
    assert (await stale.refresh()).version == 5
    assert (await delta_of(log).refresh()).files == stale.snapshot.files


class Forgetful(StoreWrapper):
    """Calls ``forget`` once while a version is being read."""

    forget: Callable[[], None] | None = None

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        forget = self.forget
        if forget is not None and call.key.endswith(".json"):
            self.forget = None
            forget()
        return await run()


@pytest.mark.parametrize("came", [0, 1])
async def test_a_table_forgotten_while_it_is_refreshed_is_loaded_anew(came: int) -> None:
    log = await published()
    store = Forgetful(log.store)
    delta = delta_of(log, store)
    await delta.refresh()
    await delta.write_checkpoint()
    await log.store.delete(f"{delta.root}_delta_log/{0:020}.json")  # as the clean-up of old versions does
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for _ in range(came):
        await log.send({0: 2})
        await publisher.publish_once()
    store.forget = delta.forget
    assert await delta.refresh() == await delta_of(log).refresh()


class Deep(StoreWrapper):
    """Counts GETs and LISTs, and how many calls were under way at once."""

    gets = lists = calls = most = 0

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        self.gets += call.verb == "get"
        self.lists += call.verb == "list"
        self.calls += 1
        self.most = max(self.most, self.calls)
        try:
            await asyncio.sleep(0)
            return await run()
        finally:
            self.calls -= 1


async def test_who_is_behind_follows_side_by_side_and_who_is_far_behind_from_a_checkpoint() -> None:
    log = await published(1)
    store = Deep(log.store)
    near, far = delta_of(log, store), delta_of(log, store)
    await far.refresh()
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for n in range(160):
        if n == 120:
            await near.refresh()
        if n == 155:
            newest = delta_of(log)
            await newest.refresh()
            await newest.write_checkpoint()
        await log.send({0: 1})
        await publisher.publish_once()
    store.gets = store.most = 0
    assert (await near.refresh()).version == 161
    assert store.most == 16
    assert store.gets < 45
    store.gets = 0
    assert await far.refresh() == near.snapshot == await delta_of(log).refresh()
    assert store.gets < 15


async def test_who_is_a_few_versions_behind_lists_nothing() -> None:
    log = await published(1)
    store = Deep(log.store)
    delta = delta_of(log, store)
    await delta.refresh()
    for _ in range(3):
        await log.send({0: 1})
        await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    store.gets = store.lists = 0
    assert (await delta.refresh()).version == 4
    assert (store.gets, store.lists) == (4, 0)


async def test_a_far_checkpoint_that_is_damaged_is_not_needed_to_follow() -> None:
    log = await published(1)
    behind = delta_of(log)
    await behind.refresh()
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for _ in range(110):
        await log.send({0: 1})
        await publisher.publish_once()
    newest = delta_of(log)
    await newest.refresh()
    await newest.write_checkpoint()
    await log.store.put(newest._checkpoint_key(111), b"damaged", mode=Put.REPLACE)
    assert await behind.refresh() == newest.snapshot


async def test_what_was_taken_out_long_ago_is_forgotten_by_a_running_process_too() -> None:
    log = await published(9)
    running = delta_of(log)
    assert (await Compactor(log.store, running, log.runtime, fan_in=3).compact_once()).files > 0
    removed = set(running.snapshot.removed)
    await running.write_checkpoint()
    assert set(running.snapshot.removed) == removed
    log.clock.advance(hours=24 * 7 + 1)
    await log.send({0: 1})
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    await running.refresh()
    await running.write_checkpoint()
    assert running.snapshot.removed == {}
    assert await delta_of(log).refresh() == running.snapshot


async def test_a_reader_keeps_nothing_of_what_was_taken_out_and_deletes_nothing() -> None:
    log = await published(9)
    keeper = delta_of(log)
    await Compactor(log.store, keeper, log.runtime, fan_in=3).compact_once()
    following = DeltaLog(log.store, log.paths, "table", log.runtime, keep_removes=False)
    assert (await following.refresh()).removed == {}
    await keeper.write_checkpoint()
    loading = DeltaLog(log.store, log.paths, "table", log.runtime, keep_removes=False)
    assert (await loading.refresh()).removed == {}
    assert loading.snapshot.files == following.snapshot.files == keeper.snapshot.files
    assert keeper.snapshot.removed != {}
    with pytest.raises(InternalError, match="under its readers"):
        Collector(log.store, log.paths, loading, log.runtime, log.append_actions)  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="under their readers"):
        await loading.write_checkpoint()


async def test_a_damaged_checkpoint_is_passed_over_while_versions_reach_back() -> None:
    log = await published(4)
    delta = delta_of(log)
    snapshot = await delta.refresh()
    await delta.write_checkpoint()
    key = f"{delta.root}_delta_log/{4:020d}.checkpoint.parquet"
    await log.store.put(key, (await log.store.get(key)).data[:-9], mode=Put.REPLACE)
    assert await delta_of(log).refresh() == snapshot
    await log.store.delete(f"{delta.root}_delta_log/{0:020d}.json")
    with pytest.raises(DataDamaged, match="cleaned up"):
        await delta_of(log).refresh()


async def test_a_version_that_is_missing_between_others_is_damage() -> None:
    log = await published(3)
    delta = delta_of(log)
    await log.store.delete(f"{delta.root}_delta_log/{2:020d}.json")
    with pytest.raises(DataDamaged, match="a version of the table is missing"):
        await delta.refresh()


async def test_a_checkpoint_that_nothing_hints_at_is_found_where_the_versions_before_it_are_gone() -> None:
    log = await published(3)
    delta = delta_of(log)
    newest = await delta.refresh()
    await delta.write_checkpoint()
    for name in ("_last_checkpoint", f"{0:020d}.json"):
        await log.store.delete(f"{delta.root}_delta_log/{name}")
    assert await delta_of(log).refresh() == newest


async def test_a_damaged_version_is_named() -> None:
    log = await published(2)
    delta = delta_of(log)
    key = f"{delta.root}_delta_log/{1:020d}.json"
    await log.store.put(key, b'{"add": {"pa', mode=Put.REPLACE)
    with pytest.raises(DataDamaged, match=f"{1:020d}.json"):
        await delta.refresh()


async def test_a_file_that_another_writer_added_is_refused() -> None:
    log = await published(1)
    delta = delta_of(log)
    add = {
        "path": "queue=0/part-1.parquet",
        "partitionValues": {"queue": "0"},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    await log.store.put(f"{delta.root}_delta_log/{2:020d}.json", json.dumps({"add": add}).encode(), mode=Put.CREATE)
    with pytest.raises(ForeignObject, match=r"part-1\.parquet.*only Penstock may commit"):
        await delta.refresh()


async def test_times_of_commits_rise_though_the_clock_goes_back() -> None:
    log = await published(2)
    log.clock.now_ms -= 5_000_000
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    await log.send({0: 1})
    await publisher.publish_once()
    times = [file.modified_ms for file in (await delta_of(log).refresh()).files[0]]
    assert times == sorted(set(times))


async def test_there_is_no_table_before_the_first_publishing() -> None:
    assert await delta_of(LogWriter()).refresh() == Snapshot("table")


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("topic", ["orders", "%DLQ%billing"])
def test_deltalake_polars_and_duckdb_read_the_same_rows(topic: str, checkpoint: bool, tmp_path: Path) -> None:
    log = asyncio.run(published(5, topic=topic))

    async def test() -> list[dict[str, object]]:
        delta = delta_of(log)
        snapshot = await delta.refresh()
        if checkpoint:
            await delta.write_checkpoint()
            for version in range(snapshot.version):
                await log.store.delete(f"{delta.root}_delta_log/{version:020d}.json")
        await copy_to_folder(log.store, tmp_path)
        for file in snapshot.all_files:
            offsets = pq.read_table(tmp_path / delta.root / file.path, partitioning=None).column("offset").to_pylist()
            assert offsets == list(range(file.first_offset, file.limit_offset))
        return [row for queue in range(4) for row in (await queue_rows(log, queue)).to_pylist()]

    expected = asyncio.run(test())
    table = str(tmp_path / log.paths.table("table"))
    columns = MESSAGE_SCHEMA.names

    def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(rows, key=lambda row: (row["queue"], row["offset"]))

    by_delta = deltalake.DeltaTable(table).to_pyarrow_table(columns=columns).cast(MESSAGE_SCHEMA)
    assert in_order(by_delta.to_pylist()) == expected

    by_polars = pl.scan_delta(table).collect().sort("queue", "offset")
    assert by_polars.select(columns).to_dicts() == [{**row, "properties": dict(row["properties"])} for row in expected]  # type: ignore[call-overload]

    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(
            f'SELECT queue, "offset", message_id, message_group, tag, keys, body, epoch_us(store_timestamp) '
            f"FROM delta_scan('{table}') ORDER BY queue, \"offset\""
        ).fetchall()
    assert [row[:7] for row in found] == [
        tuple(row[name] for name in ("queue", "offset", "message_id", "message_group", "tag", "keys", "body")) for row in expected
    ]
    assert [row[7] for row in found] == [int(row["store_timestamp"].timestamp() * 1000) * 1000 for row in expected]  # type: ignore[attr-defined]
