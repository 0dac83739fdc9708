"""Writers of the Iceberg metadata among faults, kills and each other, and what becomes of old metadata."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.log.errors import DataDamaged, ForeignObject, MissingDependency, PenstockError, PermissionDenied, RetryError
from penstock.log.stores.faults import Fault, FaultKind, FaultStore
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import ObjectInfo, Put, Version
from penstock.log.table.compactor import Compactor
from penstock.log.table.iceberg.leftovers import collect_metadata, leftovers
from penstock.log.table.iceberg.names import HINT, METADATA, metadata_path
from penstock.log.table.iceberg.plan import SNAPSHOT_KEPT_MS
from penstock.log.table.iceberg.writer import IcebergWriter
from penstock.log.table.maintenance import MaintenanceOptions, TopicMaintenance
from penstock.log.table.publisher import PublishResult
from tests.log.table.iceberg_readers import check_equal, check_whole, listing_of, rows_of, writer_of
from tests.log.table.readers import YieldingStore, snapshot_of
from tests.log.table.upkeep import delta_of, keys, publish, topic
from tests.log.topics import LogWriter

LAKE = Path("/lake")


class Killed(BaseException):
    """The end of a process, which no handler survives."""


class KilledAt(FaultStore):
    """Ends the process before or after the call of this number; ``count`` counts the calls."""

    def __init__(self, inner: MemoryStore, at: int, *, after: bool) -> None:
        super().__init__(inner, lambda *_: None)
        self.count = 0
        self._at, self._after = at, after

    async def _around(self, call, run):  # type: ignore[no-untyped-def]
        self.count += 1
        if self.count == self._at and not self._after:
            raise Killed
        answer = await run()
        if self.count == self._at:
            raise Killed
        return answer


async def hinted(log: LogWriter) -> int:
    return int((await log.store.get(log.paths.table(log.record.table) + HINT)).data)


@pytest.mark.parametrize("after", [False, True])
async def test_a_writer_killed_at_any_call_leaves_nothing_that_the_next_must_know(after: bool) -> None:
    at = 0
    while True:
        at += 1
        log = await topic(2)
        first = writer_of(log, LAKE)
        await first.write_once()
        before = await listing_of(log)
        await log.send({1: 3})
        await publish(log)
        store = KilledAt(log.store, at, after=after)
        with suppress(Killed):
            await writer_of(log, LAKE, store).write_once()
        await check_whole(log)
        killed = await listing_of(log)
        assert killed.delta_version in {before.delta_version, before.delta_version + 1}
        for writer in (first, writer_of(log, LAKE)):
            await log.send({2: 1})
            await publish(log)
            await writer.write_once()
            snapshot = await snapshot_of(log)
            listing = await listing_of(log)
            assert listing.delta_version == snapshot.version
            assert rows_of(listing) == sorted(snapshot.paths)
            assert await hinted(log) == listing.table.version
        if store.count < at:
            return


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind is not FaultKind.PERMISSION])
async def test_a_fault_at_any_call_is_survived(kind: FaultKind) -> None:
    at = -1
    while True:
        at += 1
        calls = 0

        def fault(number: int, verb: str, key: str, at: int = at) -> Fault | None:
            nonlocal calls
            calls += 1
            return Fault(kind) if calls - 1 == at else None

        log = await topic(2)
        await writer_of(log, LAKE).write_once()
        await log.send({1: 3})
        await publish(log)
        writer = writer_of(log, LAKE, FaultStore(log.store, fault))
        for _ in range(2):
            with suppress(PenstockError):
                await writer.write_once()
        await writer.write_once()
        await check_whole(log)
        listing = await listing_of(log)
        assert rows_of(listing) == sorted((await snapshot_of(log)).paths)
        assert await hinted(log) == listing.table.version == 2
        if calls <= at:
            return


@pytest.mark.parametrize("seed", range(6))
async def test_of_two_writers_at_once_each_version_is_written_by_one(seed: int) -> None:
    chance = random.Random(seed)
    log = await topic(3)
    writers = [writer_of(log, LAKE, YieldingStore(log.store, chance.randrange(10**6))) for _ in range(3)]
    versions = 0
    for _ in range(12):
        await log.send({chance.randrange(4): 1})
        steps = [writer.write_once() for writer in writers]
        compactor = Compactor(YieldingStore(log.store, seed), delta_of(log), log.runtime, fan_in=3)
        done, *_ = await asyncio.gather(asyncio.gather(*steps), publish(log), compactor.compact_once())
        versions += sum(one.versions for one in done)
        await check_whole(log)
    for writer in writers:
        versions += (await writer.write_once()).versions
    listing = await listing_of(log)
    assert listing.table.version == versions
    assert await hinted(log) == versions
    snapshot = await snapshot_of(log)
    assert (listing.delta_version, rows_of(listing)) == (snapshot.version, sorted(snapshot.paths))


async def test_a_writer_that_is_behind_writes_nothing() -> None:
    """It lost the race, and the version that won is of a later Delta snapshot than its own."""
    log = await topic(2)
    await writer_of(log, LAKE).write_once()

    class Slow(YieldingStore):
        async def put_large(self, key: str, data: object) -> None:
            await log.send({0: 1})
            await publish(log)
            await writer_of(log, LAKE).write_once()
            await super().put_large(key, data)  # type: ignore[arg-type]

    slow = writer_of(log, LAKE, Slow(log.store, 1))
    await log.send({0: 1})
    await publish(log)
    assert (await slow.write_once()).versions == 0
    assert (await listing_of(log)).delta_version == (await snapshot_of(log)).version


async def test_a_version_that_took_over_a_day_is_given_up() -> None:
    log = await topic(2)

    class Asleep(YieldingStore):
        async def put_large(self, key: str, data: object) -> None:
            await super().put_large(key, data)  # type: ignore[arg-type]
            log.clock.advance(hours=25)

    with pytest.raises(RetryError, match="over a day"):
        await writer_of(log, LAKE, Asleep(log.store, 1)).write_once()
    assert not [key for key in await keys(log, "table/metadata/") if key.endswith(".json")]


async def test_the_hint_never_goes_back() -> None:
    """A writer sleeps between its version and the hint, and another writes the next version meanwhile."""
    log = await topic(2)
    await writer_of(log, LAKE).write_once()

    class Overtaken(YieldingStore):
        async def put(self, key: str, data: object, **mode: object) -> Version:
            if key.endswith(HINT):
                await log.send({0: 1})
                await publish(log)
                await writer_of(log, LAKE).write_once()
            return await super().put(key, data, **mode)  # type: ignore[arg-type]

    await log.send({0: 1})
    await publish(log)
    assert (await writer_of(log, LAKE, Overtaken(log.store, 1)).write_once()).version == 2
    assert await hinted(log) == (await listing_of(log)).table.version == 3


# --- old metadata


def test_what_was_made_for_a_version_after_the_anchor_stays() -> None:
    """Its manifests were uploaded just before the anchor's time was over, and it was written just after."""
    made = ["v5.metadata.json", "00005-m.avro", "00006-m.avro", "snap-00006.avro", "v6.metadata.json", "00007-m.avro"]
    paths = [METADATA + name.replace("-m", f"-{'a' * 32}-m0").replace("snap-00006", f"snap-00006-{'b' * 32}") for name in made]
    listed = [ObjectInfo("root/" + path, 1, 1) for path in [*paths, METADATA + "v4.metadata.json", HINT, METADATA + "else.avro"]]
    gone = leftovers(listed, {paths[0], paths[1]}, root="root/", anchor=5)
    assert gone == ["root/" + METADATA + "v4.metadata.json"]
    assert leftovers(listed, {paths[0]}, root="root/", anchor=5) == ["root/" + paths[1], *gone]


@pytest.mark.slow
async def test_old_metadata_is_deleted_and_what_readers_may_use_is_not(tmp_path: Path) -> None:
    log = await topic(2)
    writer = writer_of(log, tmp_path)
    root = log.paths.table("table")
    await log.store.put(root + METADATA + "00001-" + "a" * 32 + "-m0.avro", b"of a writer that was killed", mode=Put.CREATE)
    for _ in range(26):
        await log.send({0: 1, 3: 1})
        await publish(log)
        await writer.write_once()
        log.clock.advance(hours=4)
    assert await collect_metadata(log.store, root, log.runtime) > 20
    await check_whole(log)
    versions = [key for key in await keys(log, "table/metadata/v") if key.endswith(".json")]
    assert 12 <= len(versions) <= 14  # those of the last 48 hours, one every four, and the one before
    assert await collect_metadata(log.store, root, log.runtime) == 0
    assert not [key for key in await keys(log, "table/metadata/") if "a" * 32 in key]
    assert (await check_equal(log, tmp_path)).num_rows == len(log.sent)
    await log.send({0: 1})
    await publish(log)
    await writer_of(log, tmp_path).write_once()
    assert (await check_equal(log, tmp_path)).num_rows == len(log.sent)


async def test_the_metadata_of_a_topic_that_fell_silent_stays() -> None:
    log = await topic(3)
    writer = writer_of(log, LAKE)
    await writer.write_once()
    log.clock.advance(hours=24 * 30)
    before = await log.store.list("")
    assert await collect_metadata(log.store, log.paths.table("table"), log.runtime) == 0
    assert await log.store.list("") == before
    await log.send({0: 1})
    await publish(log)
    await writer.write_once()
    assert await collect_metadata(log.store, log.paths.table("table"), log.runtime) == 0  # a reader may just have opened it
    log.clock.advance(hours=49)
    assert await collect_metadata(log.store, log.paths.table("table"), log.runtime) > 0
    await check_whole(log)


async def test_a_snapshot_is_no_longer_listed_a_day_after_another_followed() -> None:
    """Its files may have left the table then, and are deleted some days later."""
    log = await topic(3)
    writer = writer_of(log, LAKE)
    await writer.write_once()
    await log.send({0: 1})
    await publish(log)
    await writer.write_once()
    assert len((await listing_of(log)).table.snapshots) == 2
    log.clock.advance(seconds=SNAPSHOT_KEPT_MS / 1000)
    assert (await writer.write_once()).versions == 0
    log.clock.advance(seconds=60)
    assert (await writer.write_once()).versions == 1
    listing = await listing_of(log)
    assert len(listing.table.snapshots) == 1
    assert rows_of(listing) == sorted((await snapshot_of(log)).paths)
    assert (await writer.write_once()).versions == 0


# --- what others did


async def test_a_version_of_another_engine_is_refused_by_name() -> None:
    log = await topic(2)
    await writer_of(log, LAKE).write_once()
    root = log.paths.table("table")
    data = (await log.store.get(root + metadata_path(1))).data
    await log.store.put(root + metadata_path(2), data.replace(b"penstock.delta-version", b"engine"), mode=Put.CREATE)
    with pytest.raises(ForeignObject, match="another engine") as caught:
        await writer_of(log, LAKE).write_once()
    assert caught.value.object == root + metadata_path(2)


@pytest.mark.parametrize("key", ["v1.metadata.json", "snap-", "-m0.avro"])
@pytest.mark.parametrize("data", [b"", b"{}", b"damaged", None])
async def test_damaged_metadata_is_told_with_its_key(key: str, data: bytes | None) -> None:
    log = await topic(2)
    await writer_of(log, LAKE).write_once()
    (path,) = [found for found in await keys(log, "table/metadata/") if key in found]
    if data is None:
        await log.store.delete(path)
    else:
        await log.store.put(path, data, mode=Put.REPLACE)
    if data is None and key.startswith("v1"):
        assert (await writer_of(log, LAKE).write_once()).version == 1
        return
    with pytest.raises(DataDamaged) as caught:
        await writer_of(log, LAKE).write_once()
    assert caught.value.object == path
    assert "delete the folder metadata/" in str(caught.value.hint)


async def test_metadata_of_another_table_is_refused() -> None:
    log = await topic(2)
    await writer_of(log, LAKE).write_once()
    key = log.paths.table("table") + metadata_path(1)
    table = (await listing_of(log)).table
    data = (await log.store.get(key)).data.replace(table.uuid.encode(), b"0" * 36)
    await log.store.put(key, data, mode=Put.REPLACE)
    await log.send({0: 1})
    await publish(log)
    with pytest.raises(ForeignObject, match="of another table"):
        await writer_of(log, LAKE).write_once()


async def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    log = await topic(2)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingDependency, match="fastavro") as caught:
        await writer_of(log, LAKE).write_once()
    assert ".[iceberg]" in str(caught.value.hint)


# --- in maintenance


def keeper_of(
    log: LogWriter,
    store: object = None,
    *,
    options: MaintenanceOptions | None = None,
    on_step: Callable[[str, object], None] = lambda *_: None,
) -> TopicMaintenance:
    return TopicMaintenance(
        store or log.store,  # type: ignore[arg-type]
        log.paths,
        log.record,
        log.runtime,
        log.append_actions,  # type: ignore[arg-type]
        options,
        iceberg=True,
        on_step=on_step,
    )


async def test_maintenance_lists_what_it_published_and_compacted() -> None:
    log = await topic(20)
    keeper = keeper_of(log, options=MaintenanceOptions(compact_fan_in=3))
    assert (await keeper.run_once()).errors == {}
    await log.send({0: 1})
    assert (await keeper.run_once()).errors == {}
    snapshot = await snapshot_of(log)
    listing = await listing_of(log)
    assert (listing.delta_version, rows_of(listing)) == (snapshot.version, sorted(snapshot.paths))
    assert listing.table.location == "memory:///topics/orders/table"
    assert listing.table.version == 2


async def test_without_the_option_nothing_is_listed() -> None:
    log = await topic(2)
    keeper = TopicMaintenance(log.store, log.paths, log.record, log.runtime, log.append_actions)  # type: ignore[arg-type]
    assert "iceberg" not in keeper.steps()
    await keeper.run_once()
    assert await keys(log, "table/metadata/") == []


async def test_metadata_that_cannot_be_written_stops_no_publication() -> None:
    log = await topic(2)
    refused = True

    def fault(_number: int, verb: str, key: str) -> Fault | None:
        return Fault(FaultKind.PERMISSION) if refused and verb.startswith("put") and "/metadata/" in key else None

    stop, refusals = asyncio.Event(), 0

    def on_step(step: str, result: object) -> None:
        nonlocal refused, refusals
        if step == "iceberg" and isinstance(result, PermissionDenied):
            refusals += 1
            assert keeper.statistics().errors.keys() == {"iceberg"}
            refused = keeper.statistics().commits < 4
        elif step == "iceberg" and refusals:
            stop.set()

    async def step() -> PublishResult:
        if log.state.entry < 9:
            await log.send({0: 1})
        return await publish()

    store = FaultStore(log.store, fault)
    options = MaintenanceOptions(publish_interval=0, quiet_interval=0, upkeep_interval=0)
    keeper = keeper_of(log, store, options=options, on_step=on_step)
    publish, keeper.publish = keeper.publish, step  # type: ignore[method-assign]
    await asyncio.wait_for(keeper.run_forever(stop), 20)
    assert refusals >= 3
    await keeper.list_for_iceberg()
    assert keeper.statistics().errors == {}
    assert (await listing_of(log)).delta_version == (await snapshot_of(log)).version


async def test_metadata_that_is_slow_to_write_holds_up_no_publication() -> None:
    log = await topic(2)
    stop, goes_on = asyncio.Event(), asyncio.Event()

    class Slow(YieldingStore):
        async def put_large(self, key: str, data: object) -> None:
            if METADATA in key:
                await goes_on.wait()
            await super().put_large(key, data)  # type: ignore[arg-type]

    def on_step(step: str, _: object) -> None:
        if step == "publish" and keeper.statistics().commits >= 3:
            goes_on.set()
        if step == "iceberg" and goes_on.is_set() and log.state.entry >= 9:
            stop.set()

    async def step() -> PublishResult:
        if log.state.entry < 9:
            await log.send({0: 1})
        return await publish()

    options = MaintenanceOptions(publish_interval=0, quiet_interval=0, upkeep_interval=3600)
    keeper = keeper_of(log, Slow(log.store, 1), options=options, on_step=on_step)
    publish, keeper.publish = keeper.publish, step  # type: ignore[method-assign]
    await asyncio.wait_for(keeper.run_forever(stop), 10)
    await keeper.list_for_iceberg()
    assert keeper.statistics().errors == {}
    assert (await listing_of(log)).delta_version == (await snapshot_of(log)).version


async def test_a_deleted_topic_and_an_older_life_list_nothing() -> None:
    log = await topic(5)
    await keeper_of(log).run_once()
    await log.delete()
    log.record = type(log.record)(settings=log.record.settings, incarnation="life-1", deleted=True)
    assert (await keeper_of(log).run_once()).errors == {}
    assert rows_of(await listing_of(log)) == []

    older = await topic(5)
    await keeper_of(older).run_once()
    await older.delete()
    again = LogWriter(store=older.store, clock=older.clock)
    again.state = older.state
    again.record = type(older.record)(settings=older.record.settings, incarnation="life-2", table="table-7")
    assert (await keeper_of(again).run_once()).errors == {}
    assert rows_of(await listing_of(older)) == []


async def test_damaged_metadata_of_an_older_life_keeps_nothing_else_from_being_collected() -> None:
    log = await topic(5)
    await keeper_of(log).run_once()
    root = log.paths.table(log.record.table)
    await log.store.put(root + metadata_path(1), b"?", mode=Put.REPLACE)
    await log.delete()
    lives = []
    for number, table in enumerate(("table-7", "table-9"), start=2):
        life = LogWriter(store=log.store, clock=log.clock)
        life.state, life.record = (
            log.state,
            type(log.record)(settings=log.record.settings, incarnation=f"life-{number}", table=table),
        )
        await delta_of(life).create({})
        await IcebergWriter(life.store, life.runtime, delta_of(life)).write_once()
        lives.append(life)
    former, now = lives
    await log.store.put(former.paths.table("table-7") + "queue=0/orphan.parquet", b"?", mode=Put.CREATE)
    old = f"{METADATA}00001-{'0' * 32}-m0.avro"
    await log.store.put(now.paths.table("table-9") + old, b"?", mode=Put.CREATE)
    log.clock.advance(hours=49)
    assert list((await keeper_of(now).run_once()).errors) == ["collect"]
    assert not await keys(now, "table-9/" + old)
    assert not await keys(now, "table-7/queue=0/orphan")


async def test_the_writer_takes_the_place_of_the_lake_from_its_store(tmp_path: Path) -> None:
    log = LogWriter(store=MemoryStore(name="somewhere"))
    await log.create()
    await delta_of(log).create({})
    await IcebergWriter(log.store, log.runtime, delta_of(log)).write_once()
    assert (await listing_of(log)).table.location == "memory://somewhere/topics/orders/table"
