from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pyarrow as pa
import pytest

from penstock.consumers.ranges.task import _ahead
from penstock.log import DataDamaged

BATCHES = [pa.record_batch({"offset": [number]}) for number in range(3)]


async def test_the_next_batch_is_read_while_the_caller_has_the_last() -> None:
    second, closed = asyncio.Event(), asyncio.Event()

    async def source() -> AsyncGenerator[pa.RecordBatch, None]:
        try:
            for number, batch in enumerate(BATCHES):
                if number:
                    second.set()
                yield batch
        finally:
            closed.set()

    ahead = _ahead(source())
    assert await anext(ahead) is BATCHES[0]
    await second.wait()
    assert [batch async for batch in ahead] == BATCHES[1:]
    assert closed.is_set()


async def test_a_caller_that_stops_ends_what_is_read_ahead() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def source() -> AsyncGenerator[pa.RecordBatch, None]:
        try:
            yield BATCHES[0]
            begun.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    ahead = _ahead(source())
    assert await anext(ahead) is BATCHES[0]
    await begun.wait()
    await ahead.aclose()
    assert closed.is_set()


async def test_an_error_comes_behind_the_batches_before_it() -> None:
    async def source() -> AsyncGenerator[pa.RecordBatch, None]:
        yield BATCHES[0]
        raise DataDamaged("rows are gone")

    ahead = _ahead(source())
    assert await anext(ahead) is BATCHES[0]
    with pytest.raises(DataDamaged):
        await anext(ahead)
