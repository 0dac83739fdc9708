"""A batch as messages, against the same said row by row."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.message.message import MESSAGE_SCHEMA, MessageView, views

TEXT = st.one_of(st.none(), st.sampled_from(["a", "ü", "paid"]))
TIME = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))  # noqa: DTZ001
ROW = st.fixed_dictionaries(
    {
        "queue": st.integers(0, 3),
        "offset": st.integers(0, 1 << 60),
        "message_id": st.just("f" * 32),
        "message_group": TEXT,
        "tag": TEXT,
        "keys": st.one_of(st.none(), st.lists(st.sampled_from(["k", "l"]), max_size=2)),
        "properties": st.one_of(st.none(), st.dictionaries(st.sampled_from(["p", "q"]), st.sampled_from(["", "v"]))),
        "body": st.binary(max_size=5),
        "born_timestamp": TIME,
        "store_timestamp": st.sampled_from([datetime(2026, 1, 1, 0, 0, 0, 1, UTC), datetime(2026, 1, 2, tzinfo=UTC)]),
        "delivery_timestamp": st.one_of(st.none(), TIME),
        "producer": st.just("p"),
    }
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{**row, "properties": _pairs(row)} for row in rows], MESSAGE_SCHEMA)


def _pairs(row: dict[str, Any]) -> object:
    properties = row["properties"]
    return list(properties.items()) if isinstance(properties, dict) else None


def said(row: dict[str, Any], *, attempt: int = 1, epoch: int = 0) -> MessageView:
    plain = {**row, "keys": tuple(row["keys"] or ()), "properties": row["properties"] or {}}
    return MessageView(topic="orders", **plain, delivery_attempt=attempt, epoch=epoch)


@given(st.lists(ROW, max_size=6), st.integers(0, 2))
def test_views_say_what_the_rows_say(rows: list[dict[str, Any]], skipped: int) -> None:
    batch = batch_of(rows)
    assert list(views("orders", batch)) == [said(row) for row in rows]
    assert list(views("orders", batch.slice(skipped))) == [said(row) for row in rows[skipped:]]
    table = pa.Table.from_batches([batch.slice(skipped), batch.slice(0, skipped)])
    assert list(views("orders", table)) == [said(row) for row in [*rows[skipped:], *rows[:skipped]]]


@given(st.lists(ROW, min_size=1, max_size=4))
def test_delivered_messages_carry_attempt_and_fencing_token(rows: list[dict[str, Any]]) -> None:
    attempts = [number + 2 for number in range(len(rows))]
    found = list(views("orders", batch_of(rows), attempts=attempts, epoch=7))
    assert found == [said(row, attempt=attempt, epoch=7) for row, attempt in zip(rows, attempts, strict=True)]
    assert [one.fencing_token for one in found] == [(one.queue, 7, one.offset, one.delivery_attempt) for one in found]
    assert pickle.loads(pickle.dumps(found)) == found


@given(st.lists(ROW, min_size=2, max_size=2))
def test_no_attempt_may_be_missing(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="zip"):
        list(views("orders", batch_of(rows), attempts=[1]))


def test_messages_without_properties_share_none_that_anybody_could_change() -> None:
    row = {field.name: None for field in MESSAGE_SCHEMA} | {
        "body": b"",
        "queue": 0,
        "offset": 0,
        "born_timestamp": datetime.now(UTC),
    }
    first, second = views("orders", batch_of([row, {**row, "born_timestamp": datetime.now(UTC) - timedelta(days=1)}]))
    for change in (lambda: first.properties.update(mine="yes"), lambda: first.properties.setdefault("mine", "yes")):
        with pytest.raises(TypeError, match="copy them first"):
            change()
    with pytest.raises(TypeError, match="copy them first"):
        first.properties["mine"] = "yes"
    assert first.properties == second.properties == {}
    assert pickle.loads(pickle.dumps(first)) == first
    assert dict(first.properties, mine="yes") == {"mine": "yes"}
