"""The sync of typed topics, without Spark: no JSON is read, and targets get the types of the source's columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.events import debezium
from penstock.cdc.events.typed_events import fields_of_events
from penstock.log.schema.arrow_types import arrow_fields
from penstock.log.schema.ddl import parse_ddl
from tests.cdc.sync.streams import TOPIC, event, rows
from tests.cdc.sync.streams import send as send_json

COLUMNS = "id bigint, amount decimal(12,2), at timestamp, made timestamp_ntz, day date, raw binary, note string"
AT = datetime(2026, 11, 22, 3, 4, 5, 678901, UTC)
MADE = datetime(2026, 11, 22, 3, 4, 5)  # noqa: DTZ001 - it has no zone
ROW: dict[str, Any] = {
    "id": 1, "amount": Decimal("12.50"), "at": AT, "made": MADE, "day": date(2026, 11, 22), "raw": b"\x00\xff", "note": "x",
}  # fmt: skip
Event = dict[str, Any]


def told(op: str, position: int, key: Any, after: Event | None = None, **more: Any) -> Event:
    return {
        "op": op,
        "db": "shop",
        "schema_name": "public",
        "table_name": "orders",
        "row_key": None if key is None else {"id": key},
        "after": after,
        "position": position,
        "committed_at": AT,
        **more,
    }


def send(lake_url: str, events: Sequence[Event | None], columns: str = COLUMNS) -> None:
    with penstock.connect(lake_url) as lake:
        schema = pa.schema(arrow_fields(fields_of_events(parse_ddl(columns), ["id"])))
        if TOPIC in lake.topics():
            lake.evolve_topic(TOPIC, schema)
        else:
            lake.create_topic(TOPIC, queues=2, message_type="FIFO", schema=schema)
        with lake.producer(TOPIC) as producer:
            group = "-"
            messages = []
            for one in events:
                group = group if one is None else str(one["row_key"])
                messages.append(penstock.Message.of(one, message_group=group))
            producer.send_batch(messages)


def applied(lake: str, into: Path) -> Any:
    run = sync(lake, TOPIC, SyncOptions(into=into, trigger="available_now", name=into.name))
    assert run.await_termination()
    return run


def test_a_target_has_the_columns_types_and_no_json_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("JSON was read")

    monkeypatch.setattr(debezium, "_json", refuse)
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [told("c", 1, 1, ROW), None, told("c", 2, 2, {**ROW, "id": 2}), told("c", 3, 3, {"id": 3})])
    assert not applied(lake, into).stopped
    types = {field.name: field.type for field in pa.schema(DeltaTable(str(into / "orders")).schema().to_arrow())}
    assert {name: types[name] for name in ROW} == {
        "id": pa.int64(),
        "amount": pa.decimal128(12, 2),
        "at": pa.timestamp("us", "UTC"),
        "made": pa.timestamp("us"),
        "day": pa.date32(),
        "raw": types["raw"],
        "note": types["note"],
    }
    assert rows(into / "orders") == [ROW, {**ROW, "id": 2}, {**dict.fromkeys(ROW), "id": 3}]
    changed = {**ROW, "amount": Decimal("1.00"), "note": None}
    send(
        lake,
        [
            told("u", 4, 1, changed, not_sent=["note"]),
            told("u", 5, 3, {"id": 3}, unfit={"after.note": "kept as text"}),
            told("d", 6, 2),
        ],
    )
    applied(lake, into)
    assert rows(into / "orders") == [{**changed, "note": "x"}, {**dict.fromkeys(ROW), "id": 3, "note": "kept as text"}]


def test_a_new_column_comes_with_its_type_and_a_truncate_empties_the_table(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [told("c", 1, 1, {"id": 1, "n": 1})], "id bigint, n int")
    applied(lake, into)
    send(lake, [told("c", 2, 2, {"id": 2, "n": 3_000_000_000, "more": Decimal("1.5")})], "id bigint, n bigint, more decimal(5,1)")
    run = applied(lake, into)
    assert rows(into / "orders")[0] == {"id": 1, "n": 1, "more": None}
    assert "orders" in str(run.stopped)  # the target's n is int: what it cannot hold stops its table, as with JSON
    into = tmp_path / "fresh"
    applied(lake, into)
    assert rows(into / "orders") == [{"id": 1, "n": 1, "more": None}, {"id": 2, "n": 3_000_000_000, "more": Decimal("1.5")}]
    send(lake, [told("t", 3, None)], "id bigint, n bigint, more decimal(5,1)")
    applied(lake, into)
    assert rows(into / "orders") == []


def test_a_topic_of_other_rows_is_refused_and_a_bad_event_stops_its_table(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    with penstock.connect(lake) as opened:
        opened.create_topic(TOPIC, schema="id int")
    with pytest.raises(penstock.InvalidArgument, match="the topic's rows are no change events"):
        applied(lake, into)
    lake = str(tmp_path / "other")
    send(lake, [told("c", 1, 1, {"id": 1}), told("c", 2, 1)], "id bigint")
    assert "the event does not say the row" in str(applied(lake, into).stopped)
    assert rows(into / "orders") == [{"id": 1}]


def test_typed_and_json_topics_give_the_same_target(tmp_path: Path) -> None:
    first, second = tmp_path / "typed", tmp_path / "json"
    send(
        str(first / "lake"),
        [told("c", 1, 1, {"id": 1, "note": "a"}), told("u", 2, 1, {"id": 1, "note": "b"})],
        "id bigint, note string",
    )
    send_json(
        str(second / "lake"),
        [
            event("c", "orders", {"id": 1}, {"id": 1, "note": "a"}, at=1),
            event("u", "orders", {"id": 1}, {"id": 1, "note": "b"}, at=2),
        ],
    )
    for folder in (first, second):
        applied(str(folder / "lake"), folder / "targets")
    assert rows(first / "targets" / "orders") == rows(second / "targets" / "orders")
