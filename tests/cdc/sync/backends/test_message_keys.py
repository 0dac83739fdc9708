"""Events whose key is the message's, as Kafka Connect sends them: an envelope as value beside the row's key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.schema import PrimitiveType

import penstock
from penstock import Message, SyncOptions, sync
from tests.cdc.sync.streams import TOPIC, Row, envelope, event, rows

SCHEMA = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}], "optional": False, "name": "shop.Key"}


def by_group(key: Row, value: Row | None) -> Message:
    """As a record whose key is short text."""
    return Message(body=None if value is None else json.dumps(value).encode(), message_group=json.dumps(key))


def by_key(key: Row, value: Row | None) -> Message:
    """As a record whose key is none, as those with Connect's schema are."""
    data = json.dumps({"schema": SCHEMA, "payload": key}).encode()
    return Message(body=None if value is None else json.dumps(value).encode(), key=data, message_group=f"hash-{key['id']}")


def sent(lake: str, *messages: Message) -> None:
    with penstock.connect(lake) as connected:
        connected.create_topic(TOPIC, message_type="MIXED", queues=2)
        with connected.producer(TOPIC) as producer:
            producer.send_batch(list(messages))


def synced(lake: str, into: Path) -> Mapping[str, object]:
    """Sync to the end. The tables that stand still."""
    done = sync(lake, TOPIC, SyncOptions(into=into))
    assert done.await_termination()
    return done.stopped


def changes(number: int) -> list[tuple[Row, Row | None]]:
    """A row that comes, one that goes, and the tombstone behind it."""
    kept, gone = {"id": 2 * number}, {"id": 2 * number + 1}
    return [
        (kept, envelope(event("c", "a", None, {**kept, "x": "new"}))),
        (gone, envelope(event("c", "a", None, {**gone, "x": "new"}))),
        (kept, envelope(event("u", "a", None, {**kept, "x": "changed"}))),
        (gone, envelope(event("d", "a", None, before=gone))),
        (gone, None),
    ]


@pytest.mark.parametrize("message", [by_group, by_key])
def test_rows_are_known_by_the_keys_of_messages(tmp_path: Path, message: Callable[[Row, Row | None], Message]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    sent(lake, *(message(*one) for number in range(3) for one in changes(number)))
    assert synced(lake, into) == {}
    assert rows(into / "a") == [{"id": id_, "x": "changed"} for id_ in (0, 2, 4)]


def test_a_key_with_a_schema_has_its_types(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    sent(lake, by_key(*changes(0)[0]))
    assert synced(lake, into) == {}
    types = {field.name: field.type for field in DeltaTable(into / "a").schema().fields}
    assert types["id"] == PrimitiveType("integer")


def test_the_keys_of_events_go_before_those_of_messages(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    bodies = [json.dumps(event("c", "a", {"id": 1}, {"id": 1, "other": other})).encode() for other in (2, 3)]
    sent(lake, *(Message(body=body, message_group=json.dumps({"other": other})) for other, body in enumerate(bodies)))
    assert synced(lake, into) == {}
    assert len(rows(into / "a")) == 1


@pytest.mark.parametrize("group", ["a-1", "{", '{"id": 1', '{"id": 1}x', "[1]", "{}", '{"schema": 1, "payload": {"id": 1}}'])
def test_a_message_group_that_is_no_key_is_none(tmp_path: Path, group: str) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    sent(lake, Message(body=json.dumps(envelope(event("c", "a", None, {"id": 1}))).encode(), message_group=group))
    assert "it has no key" in str(synced(lake, into))
