"""What `verify` must not miss, and that it holds no more than a piece of an entry in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pytest

from penstock.log import verify as verify_module
from penstock.log.errors import ForeignObject
from penstock.log.format.floor import encode_floor
from penstock.log.format.sealed import write_file
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.stores.protocol import ObjectStore, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.comparison.ranges import Agreement, RangeComparison
from penstock.log.table.delta.actions import CommitContent, end_txn
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.delta.segment_reader import SegmentReader
from penstock.log.table.retention import removal
from penstock.log.table.trimmer import Trimmer
from penstock.log.verify import VerifyReport, verify
from tests.log.table.readers import snapshot_of
from tests.log.table.upkeep import compared, maintenance, publish, trimmed
from tests.log.topics import LogWriter

T = TypeVar("T")


class Gets(StoreWrapper):
    """Counts how often every object is read."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.of: Counter[str] = Counter()

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.verb == "get":
            self.of[call.key] += 1
        return await run()


async def topic(*, entries: int = 70, queues: int = 4) -> LogWriter:
    """Queue 3 has five messages, in the first entry, and the others of queue 0 one each."""
    log = await LogWriter(queues=queues).create()
    await log.send({3: 5})
    for _ in range(entries):
        await log.send({0: 1})
    return log


async def verified(log: LogWriter) -> VerifyReport:
    return await verify(log.store, log.paths, log.record, log.runtime)


async def commit(log: LogWriter, change: Callable[[DeltaLog], CommitContent]) -> None:
    delta = DeltaLog(log.store, log.paths, log.record.table, log.runtime)
    snapshot = await delta.refresh()
    assert await delta.commit(change(delta), on=snapshot, started_s=delta.now_s)


async def drop_queue_3(log: LogWriter) -> None:
    await commit(log, lambda delta: CommitContent("DELETE", removes=tuple(delta.snapshot.files[3])))


async def test_a_queue_without_any_table_file_is_missed() -> None:
    log = await topic()
    await trimmed(log)
    assert (await verified(log)).ok
    await drop_queue_3(log)
    (finding,) = (await verified(log)).findings
    assert (finding.kind, finding.queue, finding.first_offset, finding.limit_offset) == ("offsets", 3, 0, 5)


async def test_a_table_that_is_gone_behind_a_raised_floor_is_missed() -> None:
    log = await topic()
    await trimmed(log)
    for info in await log.store.list(log.paths.table("table")):
        await log.store.delete(info.key)
    findings = (await verified(log)).findings
    assert [(one.kind, one.object) for one in findings] == [("missing", log.paths.table("table"))]
    assert "the log is trimmed up to entry 64, and there is no table" in findings[0].message


@pytest.mark.parametrize("published_is_floor", [False, True])
async def test_a_table_that_ends_elsewhere_than_the_log_is_noticed(published_is_floor: bool) -> None:
    log = await topic(entries=62 if published_is_floor else 66)
    await trimmed(log)
    assert (await snapshot_of(log)).published == (64 if published_is_floor else 68)
    assert (await verified(log)).ok
    await commit(log, lambda _: CommitContent("WRITE", txns={end_txn(1): 7}))
    found = {(one.kind, one.queue, one.first_offset, one.limit_offset) for one in (await verified(log)).findings}
    assert found == {("offsets", 1, 0, 7), ("offsets", 1, None, None)}


async def test_a_damaged_floor_is_a_finding() -> None:
    log = await topic()
    await trimmed(log)
    await log.store.put(log.paths.floor, b"{", mode=Put.REPLACE)
    assert ("damaged", log.paths.floor) in {(one.kind, one.object) for one in (await verified(log)).findings}


async def test_behind_an_unreadable_checkpoint_of_the_floor_the_rest_is_still_verified() -> None:
    """From the next checkpoint on, as every process would."""
    log = await topic(entries=140)
    await publish(log)
    states = (await compared(log)).checkpoint_states
    raised = Trimmer(log.store, log.paths, log.runtime)
    done = await raised.trim_once(published=64, compared=64, states=states, whole=True)
    assert done.floor == 64
    await log.store.delete(log.paths.checkpoint(64))
    await log.store.delete(log.paths.entry(135))
    found = {(one.kind, one.object) for one in (await verified(log)).findings}
    assert {("checkpoint", log.paths.checkpoint(64)), ("missing", log.paths.entry(135))} <= found


async def test_staged_rows_are_read_once_and_compared_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry links 300 rows, and few of them are compared together."""
    log = await LogWriter(queues=2).create()
    for _ in range(12):
        await log.send({0: 300}, staged=True)
    await publish(log)
    staged = {info.key: info.size_bytes for info in await log.store.list(log.paths.jobs)}
    together: list[int] = []

    class Noted(Agreement):
        async def finish(self) -> RangeComparison:
            compared = await super().finish()
            together.append(compared.rows)
            return compared

    monkeypatch.setattr(verify_module, "Agreement", Noted)
    monkeypatch.setattr(verify_module, "_COMPARED_BYTES", 2 * max(staged.values()))
    store = Gets(log.store)
    report = await verify(store, log.paths, log.record, log.runtime)
    assert report.ok
    assert (report.log_rows, report.table_rows, report.compared_rows) == (3600, 3600, 3600)
    assert sum(together) == 3600
    assert max(together) <= 600
    assert {store.of[key] for key in [*staged, *map(log.paths.entry, range(1, 14))]} == {1}


async def test_a_damaged_entry_costs_only_its_own_rows_and_the_others_are_compared() -> None:
    log = await topic()
    await publish(log)
    key = log.paths.entry(40)
    data = bytearray((await log.store.get(key)).data)
    data[-100] ^= 1
    await log.store.put(key, bytes(data), mode=Put.REPLACE)
    report = await verified(log)
    assert report.compared_rows == len(log.sent) - 1
    found = {(one.kind, one.queue, one.first_offset, one.limit_offset) for one in report.findings}
    assert found == {("damaged", None, None, None), ("lost", 0, 37, 38)}


class Between(StoreWrapper):
    """Once, just before something is called, something else happens."""

    def __init__(self, inner: ObjectStore, when: Callable[[StoreCall], bool], do: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._when, self._do = when, do
        self.done = False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if not self.done and self._when(call):
            self.done = True
            await self._do()
        return await run()


async def verified_while(log: LogWriter, when: Callable[[StoreCall], bool], do: Callable[[], Awaitable[object]]) -> VerifyReport:
    store = Between(log.store, when, do)
    report = await verify(store, log.paths, log.record, log.runtime)
    assert store.done
    return report


async def trimmed_further(log: LogWriter) -> None:
    """Hours of maintenance."""
    upkeep = maintenance(log)
    for _ in range(4):
        log.clock.advance(hours=2)
        await upkeep.run_once()
    assert upkeep.statistics().floor >= 192


async def trimmed_log(*, staged: bool = False) -> LogWriter:
    """With the floor at entry 64, and two checkpoints behind it."""
    log = await topic(entries=68)
    await maintenance(log).run_once()
    for _ in range(130):
        await log.send({0: 1}, staged=staged)
    return log


@pytest.mark.parametrize(
    "before", ["get {entry5}", "list {log}", "list {checkpoints}"], ids=["an entry", "the end", "the checkpoints"]
)
async def test_what_is_appended_while_it_reads_is_no_damage(before: str) -> None:
    log = await topic(entries=10)
    places = {"entry5": log.paths.entry(5), "log": log.paths.log, "checkpoints": log.paths.checkpoints}

    async def append() -> None:
        for _ in range(80):
            await log.send({0: 1})
        await publish(log)

    assert (await verified_while(log, lambda call: f"{call.verb} {call.key}" == before.format(**places), append)).findings == ()


def test_what_is_trimmed_anywhere_while_it_reads_is_not_missed() -> None:
    """At some of its calls: in the beginning, in the middle of what goes, behind it and at the end."""

    async def main(at: int) -> None:
        log = await trimmed_log(staged=True)
        calls = 0

        def when(call: StoreCall) -> bool:
            nonlocal calls
            calls += 1
            return calls == at

        report = await verified_while(log, when, lambda: trimmed_further(log))
        assert report.findings == (), (at, report.findings)

    for at in (2, 4, 5, 71):
        asyncio.run(main(at))


async def test_an_entry_that_was_damaged_before_it_was_trimmed_is_still_named() -> None:
    """What is around it is not missed."""
    log = await trimmed_log()
    await log.store.put(log.paths.entry(100), b"PAR1", mode=Put.REPLACE)

    async def raised() -> None:
        await log.store.put(log.paths.floor, encode_floor(192, write_id="x"), mode=Put.REPLACE)
        for number in range(65, 193):
            await log.store.delete(log.paths.entry(number))

    found = (await verified_while(log, lambda call: call.key == log.paths.entry(101), raised)).findings
    assert [(one.kind, one.object) for one in found] == [("damaged", log.paths.entry(100))]


async def test_a_table_file_that_was_taken_out_and_collected_while_it_reads_is_not_missed() -> None:
    log = await topic(entries=20)
    await publish(log)

    async def expire() -> None:
        delta = DeltaLog(log.store, log.paths, log.record.table, log.runtime)
        snapshot = await delta.refresh()
        files = {queue: snapshot.files[queue] for queue in snapshot.files}
        assert await delta.commit(removal(files, log.clock.now_ms), on=snapshot, started_s=delta.now_s)
        for file in snapshot.all_files:
            await log.store.delete(delta.root + file.path)

    entry = log.paths.entry(3)
    assert (await verified_while(log, lambda call: call.key == entry, expire)).findings == ()


def test_another_sealed_file_in_a_table_files_place_is_named() -> None:
    """One of Penstock's own even, as an entry: for readers of rows too, whatever its size is said to be."""

    async def main(other: bytes) -> None:
        log = await topic(entries=5)
        await publish(log)
        file = (await snapshot_of(log)).files[3][0]
        where = log.paths.table("table") + file.path
        await log.store.put(where, other, mode=Put.REPLACE)
        with pytest.raises(ForeignObject, match="none of a table's"):
            await SegmentReader(log.store, log.paths.table("table"), replace(file, size_bytes=len(other))).open()
        found = (await verified(log)).findings
        assert ("foreign", where, 3, 0, 5) in {
            (one.kind, one.object, one.queue, one.first_offset, one.limit_offset) for one in found
        }

    asyncio.run(main(write_file(pa.table({"x": [1, 2]}), {"a": "b"})))
    asyncio.run(main(write_file(LOG_SCHEMA.empty_table(), {})))
