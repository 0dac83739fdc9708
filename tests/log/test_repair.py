"""Damage: verify names it, repair lets the log go on, and nothing that was given out is given out again."""

from __future__ import annotations

import asyncio

import pytest

from penstock.log.errors import DataDamaged
from penstock.log.format.checkpoint import encode_checkpoint
from penstock.log.format.entry import encode_entry
from penstock.log.format.fold import VoidReason, bases_of, fold
from penstock.log.format.header import Batch, Epoch, Header, Opening
from penstock.log.format.state import TopicState
from penstock.log.limits import ENTRY_ROWS_MAX
from penstock.log.repair import RepairReport, repair
from penstock.log.stores.protocol import Put
from penstock.log.table.delta.actions import CommitContent
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.tail.view import View
from penstock.log.verify import Finding, VerifyReport, verify
from tests.log.table.readers import YieldingStore, queue_rows, snapshot_of, table_rows
from tests.log.table.segment_files import write_segment
from tests.log.table.upkeep import trim
from tests.log.topics import LogWriter


async def topic(entries: int = 10) -> LogWriter:
    log = await LogWriter().create()
    for n in range(entries):
        await log.send({n % 4: 2, 0: 1}, staged=n % 5 == 4)
    return log


async def break_footer(log: LogWriter, entry: int) -> None:
    await _flip(log, log.paths.entry(entry), -60)


async def break_rows(log: LogWriter, entry: int) -> None:
    await _flip(log, log.paths.entry(entry), 40)


async def _flip(log: LogWriter, key: str, at: int) -> None:
    data = bytearray((await log.store.get(key)).data)
    data[at] ^= 1
    await log.store.put(key, bytes(data), mode=Put.REPLACE)


async def tail(log: LogWriter) -> View:
    view = View(log.store, log.paths, log.runtime)
    await view.open()
    await view.catch_up()
    return view


async def mended(log: LogWriter) -> RepairReport:
    """Repair, and let the writer go on from what the log folds to now."""
    report = await repair(log.store, log.paths, log.runtime)
    log.state = (await tail(log)).state
    log._last.clear()
    return report


async def verified(log: LogWriter) -> VerifyReport:
    return await verify(log.store, log.paths, log.record, log.runtime)


def kinds(report: VerifyReport) -> list[tuple[str, str]]:
    return sorted({(finding.kind, finding.object.rpartition("/")[2]) for finding in report.findings})


async def test_a_healthy_log_needs_no_repair() -> None:
    log = await topic()
    assert await repair(log.store, log.paths, log.runtime) == RepairReport(needed=False)
    report = await verified(log)
    assert report.findings == ()
    assert (report.entries, report.log_rows, report.table_rows) == (11, len(log.sent), 0)


async def test_damaged_rows_cost_themselves_and_nobody_needs_to_reopen() -> None:
    log = await topic()
    before = log.state
    await break_rows(log, 5)
    with pytest.raises(DataDamaged, match=r"5\.parquet"):
        await tail(log)
    planned = await repair(log.store, log.paths, log.runtime, dry_run=True)
    assert not planned.written
    done = await mended(log)
    assert (done.needed, done.exact, done.entry, done.lost_entries, done.written) == (True, True, 12, (5,), True)
    assert planned.lost == done.lost
    assert sum(limit - first for _, first, limit in done.lost) == 3
    assert log.state.next_offsets == before.next_offsets
    assert log.state.unnamed == before.unnamed
    await log.send({0: 1}, producer="other")
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    lost = {(queue, offset) for queue, first, limit in done.lost for offset in range(first, limit)}
    assert await table_rows(log) == {place: body for place, body in log.sent.items() if place not in lost}
    assert {(q, *r) for q in range(4) for r in (await snapshot_of(log)).lost(q)} == set(done.lost)


async def test_behind_a_lost_entry_offsets_go_on_above_all_that_may_have_been_given_out() -> None:
    log = await topic()
    before = log.state
    await break_footer(log, 6)
    done = await mended(log)
    assert (done.exact, done.lost_entries) == (False, (6,))
    assert all(after >= earlier for after, earlier in zip(log.state.next_offsets, before.next_offsets, strict=True))
    assert log.state.next_offsets[0] == before.next_offsets[0]  # a later entry shows where it ended
    assert log.state.generation == before.generation + 1
    await log.send(dict.fromkeys(range(4), 1), producer="other")
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    lost = {(queue, offset) for queue, first, limit in done.lost for offset in range(first, min(limit, 100))}
    assert await table_rows(log) == {place: body for place, body in log.sent.items() if place not in lost}
    assert len(lost & set(log.sent)) <= 6  # of the lost entry, and of one whose end it hides
    report = await verified(log)
    assert {finding.kind for finding in report.findings} == {"damaged", "lost"}


async def test_what_lies_between_a_repair_and_the_next_damage_is_known_exactly() -> None:
    """Who comes later is led around both by one checkpoint, and must not lose what the repair's own state explains."""
    log = await topic()
    await break_footer(log, 6)
    done = await mended(log)
    for n in range(done.entry, 70):
        await log.send({n % 4: 1}, producer="other")
    row_of_21 = (0, 12)
    await break_footer(log, 21)
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    rows = await table_rows(log)
    lost = {(queue, offset) for queue, first, limit in done.lost for offset in range(first, limit)}
    assert rows == {place: body for place, body in log.sent.items() if place not in {*lost, row_of_21}}


async def test_where_nothing_tells_what_the_lost_entry_held_offsets_jump() -> None:
    log = await topic(4)
    before = log.state
    await break_footer(log, 5)
    done = await mended(log)
    assert min(log.state.next_offsets) >= ENTRY_ROWS_MAX
    assert all(limit - first >= ENTRY_ROWS_MAX for _, first, limit in done.lost)
    assert [queue for queue, _, _ in done.lost] == [0, 1, 2, 3]
    assert max(before.next_offsets) < ENTRY_ROWS_MAX


async def test_a_repair_fences_names_and_voids_what_was_under_way() -> None:
    log = await LogWriter().create()
    await log.send({0: 1})
    opening = Opening("named", "write-1", log.state.generation, 99)
    await _append_opening(log, opening)
    epoch = log.state.named["named"].epoch
    under_way = Batch("named", True, epoch, -1, 0, log.state.generation, {0: 1}, log.state.entry + 64)
    await log.send({1: 1})
    await break_footer(log, 4)
    done = await mended(log)
    assert not done.exact
    assert log.state.named["named"].last == -1
    assert log.state.named["named"].epoch not in {None, epoch, Epoch(done.entry, 1)}
    late = await _verdict(log, under_way)
    assert late is VoidReason.GENERATION
    fresh = Batch("named", True, epoch, -1, 0, log.state.generation, {0: 1}, log.state.entry + 64)
    assert await _verdict(log, fresh) is VoidReason.FENCED


async def _append_opening(log: LogWriter, opening: Opening) -> None:
    header = Header(log.state.entry + 1, log.runtime.new_id(), log.clock.wall_ms(), log.state.digest, {}, (), (opening,))
    log.state = fold(log.state, header).state
    await log.store.put(log.paths.entry(header.entry), encode_entry(header, {}), mode=Put.CREATE)


async def _verdict(log: LogWriter, batch: Batch) -> object:
    header = Header(
        log.state.entry + 1, "w", log.clock.wall_ms(), log.state.digest, bases_of(log.state, (batch,)), (), (), (batch,)
    )
    return fold(log.state, header).verdicts[0]


async def test_two_repairs_at_once_end_as_one() -> None:
    log = await topic()
    await break_footer(log, 6)
    stores = [YieldingStore(log.store, seed) for seed in range(3)]
    done = await asyncio.gather(*(repair(store, log.paths, log.runtime) for store in stores))
    assert sum(report.written for report in done) == 1
    assert (await tail(log)).state.entry == 12


async def test_without_a_checkpoint_above_the_floor_a_repair_says_what_is_left() -> None:
    """What named producers had sent up to the floor stood only there, so no state could be made up that doubles nothing."""
    log = await topic(70)
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    await trim(log)
    key = log.paths.checkpoint(64)
    good = (await log.store.get(key)).data
    for damaged in (good[:-3], None):
        if damaged is None:
            await log.store.delete(key)
        else:
            await log.store.put(key, damaged, mode=Put.REPLACE)
        entries = await log.store.list(log.paths.log)
        with pytest.raises(DataDamaged, match=r"cannot be repaired.*00064.*the table has every row up to entry 64") as caught:
            await repair(log.store, log.paths, log.runtime)
        assert "run `penstock repair`" not in str(caught.value)
        assert await log.store.list(log.paths.log) == entries
    await log.store.put(key, good, mode=Put.CREATE)
    assert not (await repair(log.store, log.paths, log.runtime)).needed, "as the hint says"


async def test_verify_names_what_is_wrong_and_where() -> None:
    log = await topic(70)
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    await publisher.publish_once()
    await log.send({0: 1})
    await publisher.publish_once()
    snapshot = await snapshot_of(log)
    assert (await verified(log)).findings == ()

    await break_footer(log, 30)
    await log.store.put(f"{log.paths.log}notes.txt", b"hello", mode=Put.CREATE)
    await _flip(log, log.paths.table("table") + snapshot.files[1][0].path, 50)
    await log.store.delete(log.paths.table("table") + snapshot.files[0][1].path)
    report = await verified(log)
    assert not report.ok
    assert {
        ("damaged", log.paths.entry(30).rpartition("/")[2]),
        ("foreign", "notes.txt"),
        ("damaged", snapshot.files[1][0].path.rpartition("/")[2]),
        ("missing", snapshot.files[0][1].path.rpartition("/")[2]),
    } <= set(kinds(report))


async def test_verify_finds_a_checkpoint_that_is_not_the_fold() -> None:
    log = await topic(70)
    await log.store.put(log.paths.checkpoint(64), encode_checkpoint(TopicState(entry=64)), mode=Put.REPLACE)
    assert kinds(await verified(log)) == [("checkpoint", f"{64:020d}")]


async def test_verify_finds_rows_that_differ_and_offsets_that_nothing_accounts_for() -> None:
    log = await topic(20)
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    await publisher.publish_once()
    rows = (await queue_rows(log, 3)).slice(1)
    body = rows.column_names.index("body")
    forged, data = write_segment(rows.set_column(body, "body", [[b"forged"] * rows.num_rows]), "forged")
    delta = DeltaLog(log.store, log.paths, "table", log.runtime)
    await log.store.put_large(delta.root + forged.path, data)
    snapshot = await delta.refresh()
    commit = CommitContent("OPTIMIZE", adds=(forged,), removes=snapshot.files[3], data_change=False)
    assert await delta.commit(commit, on=snapshot, started_s=delta.now_s)
    found = {(finding.kind, finding.queue, finding.first_offset) for finding in (await verified(log)).findings}
    assert found == {("different", 3, 0), ("offsets", 3, 0)}


def test_a_finding_about_named_losses_is_no_fault() -> None:
    assert VerifyReport("orders", findings=(Finding("lost", "x", "named as lost", 0, 1, 2),)).ok
    assert not VerifyReport("orders", findings=(Finding("offsets", "x", "gap", 0, 1, 2),)).ok
