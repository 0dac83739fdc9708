from __future__ import annotations

import logging
import random
import zlib
from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path

import pytest

from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold_result import TableCoverage
from penstock.cdc.sync.lease import SyncInUse, SyncLease
from penstock.cdc.sync.record import SyncRecord, TableStop, decode_record, encode_record, record_key, resume_offsets
from penstock.cdc.target import SourceWatermark, TargetProgress
from penstock.coordinator.cells.cells import StoredCell
from penstock.coordinator.lakes import LakePlace, OpenLake
from penstock.coordinator.queues.keeper import OwnershipLost
from penstock.coordinator.workers.worker import LeaseLost
from penstock.log.errors import DataDamaged, LimitExceeded, OffsetOutOfRange, PenstockError


@pytest.fixture
def two_lakes(tmp_path: Path) -> Iterator[tuple[OpenLake, OpenLake]]:
    """One lake as two drivers open it."""
    place = LakePlace.of(tmp_path / "lake")
    first, second = OpenLake(place), OpenLake(place)
    yield first, second
    first.close()
    second.close()


def lease_of(opened: OpenLake) -> SyncLease:
    async def made() -> SyncLease:
        return SyncLease(await opened.coordination(), opened.lake.runtime, "changes", "s")

    return opened.run(made)


def overwrite(opened: OpenLake, data: bytes) -> StoredCell:
    """Write other bytes in the place of the record."""

    async def write() -> StoredCell:
        cells, key = (await opened.coordination()).cells, record_key("changes", "s")
        return await cells.write(key, data, on=await cells.read(key), deadline_s=inf)

    return opened.run(write)


def test_one_driver_at_a_time_and_the_next_goes_on_from_its_record(two_lakes: tuple[OpenLake, OpenLake]) -> None:
    first, second = two_lakes
    one, other = lease_of(first), lease_of(second)
    first.run(one.take)
    one.check()
    with pytest.raises(SyncInUse, match="the sync is running elsewhere"):
        second.run(lambda: other.take(patience_s=0.5))
    record = SyncRecord(
        3, "/into", {0: 7}, {"t": TableId("public", "t")}, {"public.t": (TableStop(0, 4, "why"),)}, {"public.t": {0: 4, 1: 2}}
    )
    first.run(lambda: one.save(record))
    first.run(one.give_up)
    with pytest.raises(LeaseLost):
        one.check()
    second.run(other.take)
    assert other.record == record
    second.run(other.give_up)


def test_a_driver_whose_hold_is_over_does_not_write_over_the_next(two_lakes: tuple[OpenLake, OpenLake]) -> None:
    first, second = two_lakes
    one, other = lease_of(first), lease_of(second)
    first.run(one.take)
    keeper = one._keeper
    assert keeper is not None
    first.run(keeper.release)
    second.run(other.take)
    newer = SyncRecord(2, "/into", {0: 9})
    second.run(lambda: other.save(newer))
    for batches in (1, 2):
        with pytest.raises(LeaseLost):
            first.run(partial(one.save, SyncRecord(batches, "/into", {0: 3})))
    third = lease_of(second)
    second.run(other.give_up)
    second.run(third.take)
    assert third.record == newer
    second.run(third.give_up)


def test_reading_begins_where_the_first_table_stands_still() -> None:
    stopped = {"public.t": (TableStop(0, 4, "why"),), "public.u": (TableStop(0, 1, "why"), TableStop(1, 8, "why"))}
    resume = {"public.t": {0: 4, 1: 7}, "public.u": {0: 1, 1: 8}}
    record = SyncRecord(3, "/into", {0: 7, 1: 9}, {}, stopped, resume)
    assert resume_offsets(record, {0: (0, 20), 1: (0, 20)}, "changes") == ({0: 1, 1: 7}, {})
    position, lost = resume_offsets(record, {0: (2, 20), 1: (5, 20)}, "changes")
    assert position == {0: 4, 1: 7}
    gone = "retention has removed events that the table lacks, since it stopped: why"
    assert lost == {"public.u": (TableStop(0, 1, gone), TableStop(1, 8, gone))}
    with pytest.raises(OffsetOutOfRange, match=r"changes, queue 0; expected: offset 7; observed: the earliest kept is 8"):
        resume_offsets(record, {0: (8, 20), 1: (0, 20)}, "changes")


@pytest.mark.slow
def test_one_that_died_is_replaced_after_its_lease_and_may_keep_nothing(tmp_path: Path) -> None:
    place = LakePlace.of(tmp_path / "lake")
    first, second = OpenLake(place), OpenLake(place)
    try:
        one, other = lease_of(first), lease_of(second)
        first.run(one.take)
        first._portal.stop()  # its heart stands still, and it knows nothing of it
        second.run(lambda: other.take(patience_s=60.0))
        other.check()
        second.run(other.give_up)
    finally:
        second.close()


def test_a_record_that_cannot_be_read_leaves_the_sync_to_the_next_driver(two_lakes: tuple[OpenLake, OpenLake]) -> None:
    first, second = two_lakes
    one, other = lease_of(first), lease_of(second)
    overwrite(first, b"{half")
    with pytest.raises(DataDamaged):
        first.run(one.take)
    overwrite(first, encode_record(SyncRecord(1, "/into")))
    second.run(lambda: other.take(patience_s=0.0))
    assert other.record == SyncRecord(1, "/into")
    second.run(other.give_up)


@pytest.mark.parametrize("late", [b"{half", b'{"format":2}'])
def test_what_came_late_and_is_no_record_is_replaced_by_the_holder_s(two_lakes: tuple[OpenLake, OpenLake], late: bytes) -> None:
    first, _ = two_lakes
    one, record = lease_of(first), SyncRecord(1, "/into")
    first.run(one.take)
    overwrite(first, late)
    first.run(lambda: one.save(record))
    first.run(one.give_up)
    first.run(one.take)
    assert one.record == record
    first.run(one.give_up)


def test_who_took_over_and_writes_a_newer_format_is_not_written_over(two_lakes: tuple[OpenLake, OpenLake]) -> None:
    first, second = two_lakes
    one, other = lease_of(first), lease_of(second)
    first.run(one.take)
    keeper = one._keeper
    assert keeper is not None
    first.run(keeper.release)
    keeper.ended.clear()  # as for a driver that has not heard of it yet
    second.run(other.take)
    stored = overwrite(second, b'{"format":2}')
    with pytest.raises(OwnershipLost):
        first.run(lambda: one.save(SyncRecord(1, "/into")))
    assert second.run(lambda: other._cells.read(record_key("changes", "s"))) == stored
    second.run(other.give_up)


def test_after_damage_nothing_counts_as_written(two_lakes: tuple[OpenLake, OpenLake], monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = two_lakes
    one, record = lease_of(first), SyncRecord(1, "/into")
    first.run(one.take)
    first.run(lambda: one.save(record))

    async def lost() -> None:
        raise OwnershipLost("not now")

    overwrite(first, b"{half")
    keeper = one._keeper
    assert keeper is not None
    with monkeypatch.context() as patch:
        patch.setattr(keeper, "look", lost)
        with pytest.raises(OwnershipLost):
            first.run(lambda: one.save(SyncRecord(2, "/into")))
    first.run(lambda: one.save(record))
    first.run(one.give_up)
    first.run(one.take)
    assert one.record == record
    first.run(one.give_up)


def record_of(tables: int, *, queues: int = 4) -> SyncRecord:
    """A record as of a source whose every table has rows, and whose every second one was dropped."""
    chance = random.Random(7)
    names = [f"customer_orders_{n:05}" for n in range(tables)]
    sources = {name: TableId("public", name) for name in names}
    progress = {
        name: TargetProgress(
            {queue: chance.randrange(10**7) for queue in range(queues)},
            watermarks={chance.randrange(queues): SourceWatermark(chance.randrange(2**62), 0)},
            commits=chance.randrange(10**5),
        )
        for name in names
    }
    left = {sources[name]: TableCoverage(chance.randrange(2**62), "the table was dropped") for name in names[::2]}
    return SyncRecord(3, "/into", {0: 7}, sources, progress=progress, uncaptured=left)


def test_a_thousand_tables_fit_into_a_record(two_lakes: tuple[OpenLake, OpenLake]) -> None:
    first, _ = two_lakes
    one, record = lease_of(first), record_of(1_000)
    first.run(one.take)
    first.run(lambda: one.save(record))
    first.run(one.give_up)
    first.run(one.take)
    assert one.record == record
    first.run(one.give_up)


def test_a_record_that_fills_up_is_told_of_once_and_one_too_large_is_refused(
    two_lakes: tuple[OpenLake, OpenLake], caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = two_lakes
    one = lease_of(first)
    first.run(one.take)
    with caplog.at_level(logging.WARNING, "penstock.cdc"):
        for tables in (1_000, 2_900, 2_901):
            first.run(partial(one.save, record_of(tables)))
    assert [one.message for one in caplog.records if "is nearly full" in one.message] == [caplog.records[-1].message]
    with pytest.raises(LimitExceeded, match=r"more tables than its record has room for.*--into"):
        first.run(lambda: one.save(record_of(4_000)))
    assert one.record == record_of(2_901)
    first.run(lambda: one.save(record_of(1_000)))
    first.run(one.give_up)


def test_damaged_bytes_of_a_large_record_are_told_as_such() -> None:
    stored = encode_record(record_of(200))
    assert stored.startswith(zlib.compress(b"")[:2])
    bombs = zlib.compress(b" " * (80 << 20))
    for damaged in (stored[:-1], stored[:100], stored + b"x", b"\x78" + stored[2:], b"", b"[]", bombs):
        with pytest.raises(DataDamaged) as raised:
            decode_record(damaged, where="syncs/changes/s")
        assert isinstance(raised.value, PenstockError)
