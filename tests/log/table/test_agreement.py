"""Log against table: equal however the rows come in pieces, and any difference named with its range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.log.table.comparison.ranges import Agreement, RangeComparison, RangeDifference, _within
from penstock.log.table.publisher import Publisher
from tests.log.table.readers import queue_rows, snapshot_of
from tests.log.topics import LogWriter


async def published() -> LogWriter:
    log = await LogWriter(queues=2).create()
    for _ in range(6):
        await log.send({0: 3, 1: 2})
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    return log


async def compared(log: LogWriter, *pieces: pa.Table) -> RangeComparison:
    agreement = Agreement(log.store, log.paths, log.runtime, await snapshot_of(log))
    for piece in pieces:
        await agreement.take(piece)
    return await agreement.finish()


@pytest.mark.parametrize("step", [1, 4, 18])
async def test_equal_rows_agree_however_they_come(step: int) -> None:
    log = await published()
    rows = await queue_rows(log, 0)
    pieces = [rows.slice(at, step) for at in range(0, len(rows), step)]
    assert await compared(log, *pieces, await queue_rows(log, 1)) == RangeComparison(18 + 12, ())


async def test_rows_that_are_not_given_are_not_compared() -> None:
    log = await published()
    rows = await queue_rows(log, 0)
    assert await compared(log, rows.take([0, 5, 6, 17])) == RangeComparison(4, ())
    assert await compared(log) == RangeComparison(0, ())


async def test_a_changed_and_an_additional_row_are_differences() -> None:
    log = await published()
    rows = await queue_rows(log, 0)
    body = rows.column_names.index("body")
    changed = rows.set_column(body, "body", [[b"forged", *rows.column("body").to_pylist()[1:]]])
    assert (await compared(log, changed)).differences == (RangeDifference(0, 0, 18, 18, 18),)
    offset = rows.column_names.index("offset")
    moved = rows.set_column(offset, "offset", pa.array([*range(17), 18], pa.int64()))
    assert (await compared(log, moved)).differences == (RangeDifference(0, 0, 19, 18, 17),)


def test_a_range_has_its_first_offset_and_not_its_limit() -> None:
    inside = _within(np.arange(6), [(1, 3), (3, 4)])
    assert inside.tolist() == [False, True, True, True, False, False]
