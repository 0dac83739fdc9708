"""Fetched messages that are made when they are wanted, against lists of the same messages."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.consumers.feed.lazy_messages import LazyMessages
from penstock.log import MessageView
from penstock.log.message.message import MESSAGE_SCHEMA, views

_TIME = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=40)


def batch_of(groups: list[str | None], first: int = 0) -> pa.RecordBatch:
    rows = [
        {
            "queue": 1,
            "offset": offset,
            "message_id": f"{offset:032x}",
            "message_group": group,
            "tag": "t" if offset % 3 else None,
            "keys": ["k"] * (offset % 2),
            "properties": [("p", "v")] if offset % 5 == 0 else [],
            "body": b"." * (offset % 7),
            "born_timestamp": _TIME,
            "store_timestamp": _TIME.replace(second=offset % 2),
            "producer": "p",
        }
        for offset, group in enumerate(groups, first)
    ]
    return pa.RecordBatch.from_pylist(rows, MESSAGE_SCHEMA)


def both(groups: list[str | None], first: int = 0, *, made: bool = False) -> tuple[LazyMessages, list[MessageView]]:
    """The same messages, and as a list."""
    batch = batch_of(groups, first)
    those = list(views("orders", batch, epoch=7))
    return (LazyMessages.of(those) if made else LazyMessages.fetched("orders", batch, epoch=7)), those


def check(lazy: LazyMessages, messages: list[MessageView]) -> None:
    assert lazy.offsets == [one.offset for one in messages]
    assert lazy.body_bytes == sum(len(one.body) for one in messages)
    assert len(lazy) == len(messages)
    assert list(lazy) == messages
    assert lazy.body_bytes == sum(len(one.body) for one in messages), "the same once they are made"


@pytest.mark.parametrize("made", [False, True])
@given(st.data())
def test_picked_messages_are_cut_and_joined_like_lists(made: bool, data: st.DataObject) -> None:
    lazy, messages = both(data.draw(GROUPS), made=made)
    start, stop = data.draw(st.integers(0, 45)), data.draw(st.one_of(st.none(), st.integers(0, 45)))
    check(lazy.cut(start, stop), messages[start:stop])
    more, other = both(data.draw(GROUPS), first=100)
    joined = LazyMessages.joined([lazy.cut(start), more])
    expected = [*messages[start:], *other]
    at, end = data.draw(st.integers(0, 90)), data.draw(st.one_of(st.none(), st.integers(0, 90)))
    check(joined.cut(at, end), expected[at:end])
    check(joined.cut(at, end).cut(1, 3), expected[at:end][1:3])
    out = set(data.draw(st.lists(st.integers(0, 140))))
    check(joined.without(out), [one for one in expected if one.offset not in out])
    assert [list(one) for one in joined.each()] == [[one] for one in expected]


@pytest.mark.parametrize("made", [False, True])
@given(st.lists(st.sampled_from([None, "a", "b"]), max_size=60))
def test_message_groups_are_told_apart(made: bool, groups: list[str | None]) -> None:
    lazy, messages = both(groups, made=made)
    found = lazy.by_group()
    assert list(found) == list(dict.fromkeys(groups)), "by their first messages"
    for group, own in found.items():
        check(own, [one for one in messages if one.message_group == group])
        assert own.offsets == sorted(own.offsets)


def test_messages_of_a_group_keep_no_others_in_memory() -> None:
    """What waits behind a slow handler is counted as in memory by itself, and would hold on to all that was fetched with it."""
    size = 100_000
    bodies = pa.array([bytes([n]) * size for n in range(100)], pa.binary())
    batch = batch_of([*["slow"] * 9, *["quick"] * 91])
    batch = batch.set_column(batch.schema.get_field_index("body"), "body", bodies)
    tracemalloc.start()
    try:
        kept = LazyMessages.fetched("orders", batch, epoch=7).by_group()["slow"]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.body_bytes == 9 * size
    assert held < 10 * size


def test_what_is_cut_off_before_it_is_made_is_made_apart() -> None:
    lazy, messages = both(["a"] * 10)
    head, tail = lazy.cut(0, 4), lazy.cut(4)
    assert lazy[0] == messages[0]
    check(head, messages[:4])
    check(tail, messages[4:])
    check(lazy.cut(2, 5), messages[2:5])
