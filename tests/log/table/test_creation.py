"""A topic has its Delta table from its creation on, so that readers of Delta find no rows in it and not an error."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import deltalake
import duckdb
import duckdb_extension_delta
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock import aio
from penstock.log import Message, TopicSettings
from penstock.log.errors import DataDamaged, PenstockError
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import CountingStore, MemoryStore
from penstock.log.stores.faults import Fault, FaultKind, FaultStore, scripted_faults
from penstock.log.stores.protocol import ObjectStore, Put
from penstock.log.table.creation import open_table
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.delta.snapshot import Snapshot
from penstock.log.table.publisher import Publisher
from penstock.log.topic.settings import TopicRecord
from tests.log.table.upkeep import RefusedCommits
from tests.thorough import thoroughly

PATHS = TopicPaths.of("orders")
SETTINGS = TopicSettings(queues=2)


def connected(store: ObjectStore) -> aio.Lake:
    return aio.connect(store=store, maintenance=False)


async def snapshot(store: ObjectStore, record: TopicRecord) -> Snapshot:
    return await DeltaLog(store, PATHS, record.table, Runtime()).refresh()


async def published(store: ObjectStore, record: TopicRecord) -> int:
    """The rows of the table, after all that the log has was published."""
    publisher = Publisher(store, PATHS, record, Runtime())
    while not (await publisher.publish_once()).caught_up:
        pass
    return sum(file.rows for files in (await snapshot(store, record)).files.values() for file in files)


def test_every_reader_of_delta_finds_no_rows_in_a_new_topic(tmp_path: Path) -> None:
    with penstock.connect(tmp_path, maintenance=False) as lake:
        lake.create_topic("orders", queues=2)
        lake.delete_topic("orders")
        record = lake.create_topic("orders", queues=3)
        assert record.table != "table"
    for folder in ("table", record.table):
        table = str(tmp_path / "topics" / "orders" / folder)
        found = pa.table(deltalake.DeltaTable(table).to_pyarrow_table())
        assert (found.num_rows, set(found.column_names)) == (0, {*MESSAGE_SCHEMA.names, "key", "headers"})
        assert pl.read_delta(table).height == 0
        extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
        with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
            connection.execute(f"LOAD '{extension}'")
            assert connection.execute(f"SELECT count(*) FROM delta_scan('{table}')").fetchone() == (0,)


@pytest.mark.parametrize(
    ("number", "kind"),
    [*enumerate([FaultKind.FAIL_BEFORE, FaultKind.LOST_ANSWER, FaultKind.REFUSED_AFTER_SUCCESS, FaultKind.UNDECIDED])],
)
def test_a_fault_at_any_call_leaves_what_the_next_call_or_the_publisher_completes(number: int, kind: FaultKind) -> None:
    """Of each call the one in half of the kinds, the other in the rest; both in all kinds in `make test-all`."""

    async def once(call: int, *, again: bool) -> bool:
        inner = MemoryStore()
        store = FaultStore(inner, scripted_faults({call: Fault(kind)}))
        async with connected(store) as lake:
            with suppress(PenstockError):
                await lake.create_topic("orders", SETTINGS)
        async with connected(inner) as lake:
            record = await lake.create_topic("orders", SETTINGS, table=again)
            assert not again or (await snapshot(inner, record)).exists
            await (await lake.producer("orders")).send(Message(b"paid"))
            assert await published(inner, record) == 1
        return store.calls > call

    async def run() -> int:
        call = 0
        while all([await once(call, again=again) for again in thoroughly((True, False), (call % 2 == number % 2,))]):
            call += 1
        return call

    assert asyncio.run(run()) > 15


async def test_creators_beside_publishers_make_one_table() -> None:
    store = MemoryStore()
    async with connected(store) as lake:
        record = await lake.create_topic("orders", SETTINGS, table=False)
        await (await lake.producer("orders")).send(Message(b"paid"))
        creating = (lake.create_topic("orders", SETTINGS) for _ in range(3))
        rows = await asyncio.gather(published(store, record), published(store, record), *creating)
        assert rows[:2] == [1, 1]
        assert (await snapshot(store, record)).version == 1


async def test_a_creator_that_was_paused_makes_nothing_for_a_later_topic() -> None:
    store = MemoryStore()
    async with connected(store) as lake:
        former = await lake.create_topic("orders", SETTINGS, table=False)
        await lake.delete_topic("orders")
        await lake.create_topic("orders", SETTINGS, table=False)
        delta = DeltaLog(store, PATHS, former.table, lake.runtime)
        assert await open_table(store, PATHS, former, lake.runtime, delta) is None
        assert await store.list(f"{PATHS.root}table") == []


def test_a_process_that_may_not_write_tables_leaves_them_to_the_publisher(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")

    async def run() -> None:
        inner = MemoryStore()
        async with connected(FaultStore(inner, RefusedCommits())) as lake:
            record = await lake.create_topic("orders", SETTINGS)
            assert not (await snapshot(inner, record)).exists
        assert await published(inner, record) == 0
        assert (await snapshot(inner, record)).exists

    asyncio.run(run())
    assert "Delta table is left to the first publication" in caplog.text


def test_a_damaged_table_stops_no_program_that_creates_its_topic_first(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        store = MemoryStore()
        await store.put(f"{PATHS.table('table')}_delta_log/{5:020d}.json", b"{}", mode=Put.CREATE)
        async with connected(store) as lake:
            record = await lake.create_topic("orders", SETTINGS)
            assert await lake.create_topic("orders", SETTINGS) == record
            await (await lake.producer("orders")).send(Message(b"paid"))
            with pytest.raises(DataDamaged, match="no readable checkpoint"):
                await published(store, record)

    asyncio.run(run())
    assert "no readable checkpoint" in caplog.text


async def test_creating_again_reads_one_small_object_of_the_table() -> None:
    store = CountingStore(MemoryStore())
    async with connected(store) as lake:
        record = await lake.create_topic("orders", SETTINGS, table=False)
        counted = []
        for table in (False, True, True):
            before = store.statistics()
            await lake.create_topic("orders", SETTINGS, table=table)
            counted.append((store.statistics() - before).requests)
        assert counted[2] == counted[0] + 1
        delta = DeltaLog(store, PATHS, record.table, lake.runtime)
        await delta.refresh()
        await delta.write_checkpoint()
        await store.delete(f"{delta.root}_delta_log/{0:020d}.json")  # as the clean-up does after a month
        assert await delta.has_begun()
        await lake.create_topic("orders", SETTINGS)
        assert not await store.list(f"{delta.root}_delta_log/{0:020d}.json")
