"""Batches as consumers look at them, against the same said row by row."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.consumers.feed import rows
from penstock.consumers.feed.rows import GroupHashes, check_dense, cut, group_hash
from penstock.log.errors import InternalError
from penstock.log.message.message import MESSAGE_SCHEMA
from tests.consumers.feeds import ANY, opened, topic_log


def batch_of(
    groups: list[str | None] | None = None, *, sizes: list[int] | None = None, first: int = 0, queue: int = 2
) -> pa.RecordBatch:
    """Rows of one queue with these groups, or with bodies of these sizes."""
    count = len(sizes if groups is None else groups)  # type: ignore[arg-type]
    columns: dict[str, list[object]] = {field.name: [None] * count for field in MESSAGE_SCHEMA}
    columns |= {
        "queue": [queue] * count,
        "offset": list(range(first, first + count)),
        "message_group": list(groups or [None] * count),
    }
    columns["body"] = [b"x" * size for size in sizes or [0] * count]
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in MESSAGE_SCHEMA], schema=MESSAGE_SCHEMA)


def test_group_hashes_are_keyed_with_the_groups_secret() -> None:
    secret, other = "00" * 16, "01" * 16
    assert group_hash(None, secret) == group_hash(None, other) == 0
    names = ["user-7", "ü", "", *map(str, range(1000))]
    assert len({group_hash(name, which) for name in names for which in (secret, other, "")}) == 3 * len(names)
    assert group_hash("user-7", secret) == 0xD77274B1486E2A38, "it is stored"


def test_group_hashes_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_KNOWN_MAX", 3)
    hashes = GroupHashes("ab")
    for name in (None, "a", "b", "c", "a", "b", None):
        assert hashes.of(name) == group_hash(name, "ab")
    assert len(hashes._known) <= 3


def test_no_group_has_the_hash_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "blake2b", lambda *_, **__: SimpleNamespace(digest=lambda: bytes(8)))
    assert group_hash("user-7", "") == 1


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.integers(1, 50), st.integers(1, 20_000))
def test_what_is_cut_keeps_both_limits_and_no_more_is_left_out_than_must_be(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    batch = batch_of(sizes=sizes)
    taken = cut(batch, rows_max=rows_max, bytes_max=bytes_max)
    assert 1 <= taken.num_rows <= rows_max
    assert taken == batch.slice(0, taken.num_rows)
    slack = 8 * len(MESSAGE_SCHEMA)  # of bitmaps and of offsets, which are one more than rows
    assert taken.num_rows == 1 or taken.nbytes <= bytes_max + slack
    if taken.num_rows < min(rows_max, len(sizes)):
        assert batch.slice(0, taken.num_rows + 1).nbytes > bytes_max - slack


@pytest.mark.parametrize(
    ("rows", "queue", "start"),
    [
        (batch_of(["a"] * 3, first=4), 2, 5),
        (batch_of(["a"] * 3, first=4), 1, 4),
        (batch_of(["a"] * 3).take(pa.array([0, 2])), 2, 0),
        (batch_of(["a"] * 3).take(pa.array([0, 2, 1])), 2, 0),
        (batch_of(["a"] * 3).take(pa.array([0, 0, 1])), 2, 0),
    ],
)
def test_rows_that_are_not_dense_are_a_bug(rows: pa.RecordBatch, queue: int, start: int) -> None:
    check_dense(batch_of(["a"] * 3, first=4), 2, 4)
    with pytest.raises(InternalError, match="not dense"):
        check_dense(rows, queue, start)


async def test_a_fetch_gives_all_columns() -> None:
    log = await topic_log()
    await log.send({0: 4})
    async with opened(log, 0) as it:
        older = await it.feed.fetch(0, 0, **ANY)
        await log.send({0: 4}, staged=True)
        await it.topic.tail.catch_up()
        live = await it.feed.fetch(0, 4, **ANY)
        for rows in (older, live):
            assert rows is not None
            rows.validate(full=True)
            assert rows.schema == MESSAGE_SCHEMA
            assert rows.column("store_timestamp").null_count == 0
            assert rows.column("producer").to_pylist() == ["p"] * 4
