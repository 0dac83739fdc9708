"""What a topic refuses of a capture's batch is told by table and key."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.capture.send_events import send_events
from penstock.log.errors import FencedError, LimitExceeded, PenstockError


class Refusing:
    def __init__(self, error: PenstockError) -> None:
        self._error = error

    def send_batch(self, batch: pa.Table, *, through: int | None = None) -> Any:
        raise self._error


def batch(**source: str) -> pa.Table:
    bodies = [json.dumps({"key": {"id": number}, "value": {"source": source, "op": "c"}}).encode() for number in (7, 8)]
    return pa.table({"message_group": ["a-7", "a-8"], "body": bodies})


def refused(events: pa.Table, error: PenstockError) -> PenstockError:
    producer: Any = Refusing(error)
    with pytest.raises(type(error)) as raised:
        send_events(producer, events)
    return raised.value


@pytest.mark.parametrize(
    ("events", "named"),
    [
        (batch(db="shop", schema="public", table="a"), 'public.a, key {"id":8}'),
        (batch(db="shop", table="a"), 'shop.a, key {"id":8}'),
        (batch(), 'a-8, key {"id":8}'),
        (batch(schema="public", table="a").drop_columns(["body"]), "a-8"),
    ],
)
def test_a_row_that_the_topic_refuses_is_named(events: pa.Table, named: str) -> None:
    error = refused(events, LimitExceeded("a body is too large", operation="send_batch", object="row 1"))
    assert error.object == named


def test_a_long_key_is_cut() -> None:
    body = json.dumps({"key": {"id": "k" * 1000}, "value": {"source": {"schema": "s", "table": "t"}}}).encode()
    error = refused(pa.table({"message_group": ["g"], "body": [body]}), LimitExceeded("no", object="row 0"))
    assert len(str(error.object)) < 220


def test_what_is_no_refusal_of_a_row_is_told_as_it_is() -> None:
    assert refused(batch(), FencedError("another sends", object="postgres/penstock")).object == "postgres/penstock"
