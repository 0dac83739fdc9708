"""Staged uploads: their parts end together, and how long they may be linked is counted from before the first of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from penstock.log.errors import StorageFull
from penstock.log.limits import JOB_AGE_MAX_MS, JOB_LINK_MAX_S
from penstock.log.message.batch_rows import BatchQueues, BatchRows, MessageIds
from penstock.log.stage import jobs
from penstock.log.stage.jobs import stage
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.lakes import TIMEOUT_S
from tests.log.topics import LogWriter

T = TypeVar("T")


def rows(count: int) -> BatchRows:
    body = {
        "body": pa.array([b"x" * 1000] * count, pa.binary()),
        "born_timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
    }
    return BatchRows(body, BatchQueues(np.zeros(count, np.int32)), MessageIds(7, 0), "producer")


class FirstIsRefused(StoreWrapper):
    """Refuses the first part, and never answers the others."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.begun = 0
        self.ended = 0

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.verb != "put_large":
            return await run()
        self.begun += 1
        if self.begun == 1:
            await asyncio.sleep(0)
            raise StorageFull("the store has no room left", operation=call.verb, object=call.key)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1
        raise AssertionError("nobody wakes it")


async def test_when_one_part_fails_none_goes_on_behind_the_back_of_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PART_BYTES", 50_000)
    log = LogWriter()
    store = FirstIsRefused(log.store)
    with pytest.raises(StorageFull, match="no room left"):
        async with asyncio.timeout(TIMEOUT_S):
            await stage(store, log.paths, log.runtime, rows(500), producer="p")
    assert store.begun > 1
    assert store.ended == store.begun - 1


async def test_a_job_may_be_linked_for_a_day_and_is_closed_after_two() -> None:
    log = LogWriter()
    before_s = log.clock.monotonic_s()

    class Slow(StoreWrapper):
        async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
            log.clock.advance(hours=1)
            return await run()

    staged = await stage(Slow(log.store), log.paths, log.runtime, rows(50), producer="p")
    assert staged.job.link_until_s == before_s + JOB_LINK_MAX_S
    assert sum(part.rows[0] for part in staged.parts) == 50
    assert 2000 * JOB_LINK_MAX_S <= JOB_AGE_MAX_MS, "clocks may differ, and a store's may be cut to seconds"
