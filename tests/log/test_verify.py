"""What `verify` must not miss, and that it holds no more than a piece of an entry in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.log import verify as verify_module
from penstock.log.stores.protocol import ObjectStore, Put
from penstock.log.stores.wrapper import Call, StoreWrapper
from penstock.log.table.actions import Commit, end_txn
from penstock.log.table.agreement import Agreement, Comparison
from penstock.log.table.delta import DeltaLog
from penstock.log.table.trimmer import Trimmer
from penstock.log.verify import VerifyReport, verify
from tests.log.table.readers import snapshot_of
from tests.log.table.upkeep import compared, publish, trimmed
from tests.log.topics import LogWriter

T = TypeVar("T")


class Gets(StoreWrapper):
    """Counts how often every object is read."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.of: Counter[str] = Counter()

    async def _around(self, call: Call, run: Callable[[], Awaitable[T]]) -> T:
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


async def commit(log: LogWriter, change: Callable[[DeltaLog], Commit]) -> None:
    delta = DeltaLog(log.store, log.paths, log.record.table, log.runtime)
    snapshot = await delta.refresh()
    assert await delta.commit(change(delta), on=snapshot, started_s=delta.now_s)


async def drop_queue_3(log: LogWriter) -> None:
    await commit(log, lambda delta: Commit("DELETE", removes=tuple(delta.snapshot.files[3])))


def test_a_queue_without_any_table_file_is_missed() -> None:
    async def main() -> None:
        log = await topic()
        await trimmed(log)
        assert (await verified(log)).ok
        await drop_queue_3(log)
        (finding,) = (await verified(log)).findings
        assert (finding.kind, finding.queue, finding.first_offset, finding.limit_offset) == ("offsets", 3, 0, 5)

    asyncio.run(main())


def test_a_table_that_is_gone_behind_a_raised_floor_is_missed() -> None:
    async def main() -> None:
        log = await topic()
        await trimmed(log)
        for info in await log.store.list(log.paths.table("table")):
            await log.store.delete(info.key)
        findings = (await verified(log)).findings
        assert [(one.kind, one.object) for one in findings] == [("missing", log.paths.table("table"))]
        assert "the log is trimmed up to entry 64, and there is no table" in findings[0].message

    asyncio.run(main())


@pytest.mark.parametrize("published_is_floor", [False, True])
def test_a_table_that_ends_elsewhere_than_the_log_is_noticed(published_is_floor: bool) -> None:
    async def main() -> None:
        log = await topic(entries=62 if published_is_floor else 66)
        await trimmed(log)
        assert (await snapshot_of(log)).published == (64 if published_is_floor else 68)
        assert (await verified(log)).ok
        await commit(log, lambda _: Commit("WRITE", txns={end_txn(1): 7}))
        found = {(one.kind, one.queue, one.first_offset, one.limit_offset) for one in (await verified(log)).findings}
        assert found == {("offsets", 1, 0, 7), ("offsets", 1, None, None)}

    asyncio.run(main())


def test_a_damaged_floor_is_a_finding() -> None:
    async def main() -> None:
        log = await topic()
        await trimmed(log)
        await log.store.put(log.paths.floor, b"{", mode=Put.REPLACE)
        assert ("damaged", log.paths.floor) in {(one.kind, one.object) for one in (await verified(log)).findings}

    asyncio.run(main())


def test_behind_an_unreadable_checkpoint_of_the_floor_the_rest_is_still_verified() -> None:
    """From the next checkpoint on, as every process would."""

    async def main() -> None:
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

    asyncio.run(main())


def test_staged_rows_are_read_once_and_compared_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry links 300 rows, and few of them are compared together."""

    async def main() -> None:
        log = await LogWriter(queues=2).create()
        for _ in range(12):
            await log.send({0: 300}, staged=True)
        await publish(log)
        staged = {info.key: info.size_bytes for info in await log.store.list(log.paths.jobs)}
        together: list[int] = []

        class Noted(Agreement):
            async def finish(self) -> Comparison:
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

    asyncio.run(main())


def test_a_damaged_entry_costs_only_its_own_rows_and_the_others_are_compared() -> None:
    async def main() -> None:
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

    asyncio.run(main())
