"""The table's Iceberg metadata, read back by PyIceberg and DuckDB, beside Delta's view at the same version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from penstock.log.stores.open import open_store
from penstock.log.stores.protocol import Put
from penstock.log.table.compactor import Compactor
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.iceberg.plan import MANIFESTS_MERGED, SNAPSHOTS_KEPT
from penstock.log.table.iceberg.writer import IcebergWriter, IcebergWriteResult
from penstock.log.table.retention import RetentionPolicy, empty_table, retain_once
from tests.log.table.iceberg_readers import by_duckdb, check_equal, listing_of, rows_of, writer_of
from tests.log.table.readers import copy_to_folder, snapshot_of
from tests.log.table.upkeep import delta_of, publish, topic
from tests.log.topics import LogWriter
from tests.servers import S3Server


async def test_nothing_is_written_before_there_is_a_table(tmp_path: Path) -> None:
    log = await LogWriter().create()
    assert await writer_of(log, tmp_path).write_once() == IcebergWriteResult()
    assert await log.store.list(log.paths.table("table")) == []


@pytest.mark.slow
async def test_readers_of_iceberg_find_the_rows_of_the_same_delta_version(tmp_path: Path) -> None:
    log = await topic(12)
    writer = writer_of(log, tmp_path)
    written = await writer.write_once()
    assert (written.version, written.delta_version) == (1, (await snapshot_of(log)).version)
    assert (await check_equal(log, tmp_path)).num_rows == len(log.sent)

    await log.send({1: 3})
    await publish(log)
    behind = await check_equal(log, tmp_path)  # at the older version
    assert behind.num_rows == len(log.sent) - 3
    assert (await writer.write_once()).version == 2
    assert (await check_equal(log, tmp_path)).num_rows == len(log.sent)

    assert (await Compactor(log.store, delta_of(log), log.runtime, fan_in=3).compact_once()).files
    await writer.write_once()
    assert (await check_equal(log, tmp_path)).num_rows == len(log.sent)
    assert (await listing_of(log)).table.current.summary["operation"] == "replace"

    log.clock.advance(hours=80)
    await retain_once(log.store, delta_of(log), log.runtime, RetentionPolicy(timedelta(days=3), None), guards={0: 5})
    await writer.write_once()
    kept = await check_equal(log, tmp_path)
    assert 0 < kept.num_rows < len(log.sent)
    assert (await listing_of(log)).table.current.summary["operation"] == "delete"

    await empty_table(log.store, delta_of(log), log.runtime)
    await writer.write_once()
    assert (await check_equal(log, tmp_path)).num_rows == 0

    await log.send({2: 4})
    await publish(log)
    await writer.write_once()
    assert (await check_equal(log, tmp_path)).num_rows == 4


async def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    log = await LogWriter().create()
    await delta_of(log).create({})
    await writer_of(log, tmp_path).write_once()
    assert (await check_equal(log, tmp_path)).num_rows == 0


async def test_a_round_without_a_new_delta_version_writes_nothing(tmp_path: Path) -> None:
    log = await topic(3)
    writer = writer_of(log, tmp_path)
    first = await writer.write_once()
    keys = await log.store.list("")
    again = await writer.write_once()
    assert (again.version, again.delta_version, again.versions) == (first.version, first.delta_version, 0)
    assert (await writer_of(log, tmp_path).write_once()).versions == 0
    assert await log.store.list("") == keys


async def test_readers_skip_files_by_queue_and_offset(tmp_path: Path) -> None:
    log = await topic(20)
    await writer_of(log, tmp_path).write_once()
    await copy_to_folder(log.store, tmp_path)
    files = [file for file in (await snapshot_of(log)).files[0] if file.limit_offset > 10]
    table = StaticTable.from_metadata(str(tmp_path / log.paths.table("table")))
    scan = table.scan(row_filter="queue = 0 and offset >= 10")
    tasks = list(scan.plan_files())
    assert sorted(Path(task.file.file_path).name for task in tasks) == sorted(Path(file.path).name for file in files)
    assert sorted(scan.to_arrow().column("offset").to_pylist()) == list(range(10, files[-1].limit_offset))
    late = files[-1].store_first_ms
    scan = table.scan(row_filter=f"store_timestamp >= '{_iso(late)}'")
    assert 0 < len(list(scan.plan_files())) < len((await snapshot_of(log)).all_files)


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()


async def test_snapshots_and_their_files_are_told_apart(tmp_path: Path) -> None:
    """PyIceberg's own views of the history: the operations, the counts, the time of the Delta commit, and an older snapshot."""
    log = await topic(2)
    writer = writer_of(log, tmp_path)
    await writer.write_once()
    first = await snapshot_of(log)
    await log.send({1: 3})
    await publish(log)
    await writer.write_once()
    second = await snapshot_of(log)
    await copy_to_folder(log.store, tmp_path)
    table = StaticTable.from_metadata(str(tmp_path / log.paths.table("table")))
    history = table.metadata.snapshots
    assert [snapshot.timestamp_ms for snapshot in history] == [first.time_ms, second.time_ms]
    assert [snapshot.parent_snapshot_id for snapshot in history] == [None, history[0].snapshot_id]
    summary = history[1].summary
    assert summary is not None
    assert summary.operation.value == "append"
    assert (summary["added-data-files"], summary["added-records"]) == ("1", "3")
    assert summary["total-records"] == str(len(log.sent))
    assert table.scan(snapshot_id=history[0].snapshot_id).to_arrow().num_rows == len(log.sent) - 3
    assert str(table.metadata.table_uuid) == (first.metadata and first.metadata.id)
    assert table.metadata.properties["gc.enabled"] == "false"


async def test_a_topic_that_is_created_anew_has_a_table_of_its_own(tmp_path: Path) -> None:
    log = await topic(5)
    await writer_of(log, tmp_path).write_once()
    old = await listing_of(log)
    await log.delete()
    again = LogWriter(store=log.store, clock=log.clock)
    again.state, again.record = log.state, type(log.record)(settings=log.record.settings, incarnation="life-2", table="table-7")
    await delta_of(again).create({})
    await writer_of(again, tmp_path).write_once()
    assert (await check_equal(again, tmp_path)).num_rows == 0
    assert (await listing_of(again)).table.uuid != old.table.uuid
    assert (await check_equal(log, tmp_path)).num_rows == len(log.sent)


async def test_manifests_of_publications_are_merged_once_they_are_many(tmp_path: Path) -> None:
    log = await topic(1)
    writer = writer_of(log, tmp_path)
    for _ in range(2 * MANIFESTS_MERGED):
        await log.send({0: 1, 3: 1})
        await publish(log)
        await writer.write_once()
        listing = await listing_of(log)
        assert len(listing.manifests) < MANIFESTS_MERGED
        assert rows_of(listing) == sorted((await snapshot_of(log)).paths)
    assert len((await listing_of(log)).table.snapshots) == SNAPSHOTS_KEPT
    assert (await check_equal(log, tmp_path)).num_rows == len(log.sent)


@pytest.mark.parametrize("query", ['SELECT count(*) AS n, min("offset") AS low, max("offset") AS high FROM found WHERE queue = 0'])
async def test_duckdb_counts_what_was_published(tmp_path: Path, query: str) -> None:
    log = await topic(20)
    await writer_of(log, tmp_path).write_once()
    await copy_to_folder(log.store, tmp_path)
    offsets = [offset for queue, offset in log.sent if queue == 0]
    found = by_duckdb(tmp_path / log.paths.table("table"), query)
    assert found == [{"n": len(offsets), "low": 0, "high": max(offsets)}]


async def test_a_lake_that_was_copied_elsewhere_is_listed_at_its_new_place(tmp_path: Path) -> None:
    log = await topic(10)
    await writer_of(log, tmp_path / "old").write_once()
    written = await writer_of(log, tmp_path / "new").write_once()
    assert (written.version, written.versions) == (2, 1)
    assert (await check_equal(log, tmp_path / "new")).num_rows == len(log.sent)
    assert len((await listing_of(log)).table.snapshots) == 1


@pytest.mark.s3
async def test_a_lake_on_s3_is_found_by_its_url(moto: S3Server) -> None:
    """Without being told a location. Readers name the table by its newest metadata, or by its folder, where the hint lies."""
    place = moto.url("iceberg")

    properties = {
        "s3.endpoint": moto.endpoint,
        "s3.access-key-id": moto.access_key_id,
        "s3.secret-access-key": moto.secret_access_key,
        "s3.region": "us-east-1",
    }
    log = await topic(5)
    store = open_store(place, options=moto.credentials)
    for info in await log.store.list(""):
        await store.put(info.key, (await log.store.get(info.key)).data, mode=Put.CREATE)
    delta = DeltaLog(store, log.paths, "table", log.runtime)
    for _ in range(2):
        await IcebergWriter(store, log.runtime, delta).write_once()
        for name in ("", "/metadata/v1.metadata.json"):
            table = StaticTable.from_metadata(f"s3://{moto.bucket}/iceberg/topics/orders/table{name}", properties)
            assert table.scan().to_arrow().num_rows == len(log.sent)
    await store.close()
