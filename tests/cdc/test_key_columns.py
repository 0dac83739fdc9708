"""Which columns make the key: the source may change them, and the user may say others. Rows must not become one, nor two, in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from penstock.cdc.events.sources import TableId
from penstock.cdc.target import TableDeclarations
from tests.cdc.applied import Memory
from tests.cdc.reference import Message

SOURCE = TableId("shop", "t")
Row = Mapping[str, Any]


def event(op: str, key: Row | None, after: Row | None, before: Row | None = None) -> bytes:
    return json.dumps(
        {"key": key, "value": {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": "t"}}}
    ).encode()


def applied(*events: bytes, key: Sequence[str] | None = None, batch: int = 1) -> Memory:
    memory = Memory(TableDeclarations.of(None, None if key is None else {"t": key}))
    messages = [Message(0, offset, body) for offset, body in enumerate(events)]
    for start in range(0, len(messages), batch):
        memory.apply(messages[start : start + batch])
    return memory


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("op", ["c", "u", "d"])
@pytest.mark.parametrize("key", [{"a": 1, "b": 2}, {"b": 2}, {}])
def test_a_table_whose_primary_key_changed_stands_still(key: Row, op: str, batch: int) -> None:
    """Wider, rows of the target would become one; narrower or another, one would become two. Without any, nothing tells."""
    row = {"a": 1, "b": 2}
    later = event("d", key or None, None, row) if op == "d" else event(op, key or None, row)
    memory = applied(event("c", {"a": 1}, {"a": 1, "b": 1}), later, batch=batch)
    if not key:
        assert memory.stopped == {}
        return
    assert memory.rows() == {"t": {(1,): {"a": 1, "b": 1}}}
    ((offset, reason),) = memory.stopped[SOURCE].values()
    assert offset == 1
    assert "has the source's primary key changed?" in reason
    assert f"its key is {', '.join(key)}, the target's a" in reason


def test_a_declared_key_goes_before_the_event_s_where_the_event_says_where_the_row_was() -> None:
    made = event("c", {"id": 1}, {"id": 1, "a": 1})
    full = event("u", {"id": 1}, {"id": 1, "a": 2}, {"id": 1, "a": 1})
    assert applied(made, full, key=["a"]).rows() == {"t": {(2,): {"id": 1, "a": 2}}}
    part = applied(made, event("u", {"id": 1}, {"id": 1, "a": 2}), key=["a"])
    assert part.rows() == {"t": {(1,): {"id": 1, "a": 1}}}
    ((_, reason),) = part.stopped[SOURCE].values()
    assert "does not say the row's key before" in reason
    both = applied(made, event("u", {"id": 1}, {"id": 1, "a": 1, "n": 5}, {"id": 1, "a": None}), key=["id", "a"])
    assert "does not say the row's key before" in str(both.stopped)


def test_a_declared_key_that_the_event_s_has_needs_no_row_before() -> None:
    made = event("c", {"id": 1, "region": "x"}, {"id": 1, "region": "x", "n": 1})
    changed = event("u", {"id": 1, "region": "x"}, {"id": 1, "region": "x", "n": 2})
    memory = applied(made, changed, key=["id"])
    assert memory.stopped == {}
    assert memory.rows() == {"t": {(1,): {"id": 1, "region": "x", "n": 2}}}
    keyless = applied(event("c", None, {"id": 1, "n": 1}), event("u", None, {"id": 1, "n": 2}, {"id": 1, "n": 1}), key=["id"])
    assert (keyless.stopped, keyless.rows()) == ({}, {"t": {(1,): {"id": 1, "n": 2}}})
