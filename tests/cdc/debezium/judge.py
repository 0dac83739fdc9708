"""What must be in the topic, and in tables made of it: judged by the server itself."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import penstock
from penstock.cdc.debezium.positions import sequence_of
from tests.cdc.reference import rows_of
from tests.mariadb_server import MariaDBServer


@dataclass(frozen=True)
class Seen:
    """An event of the topic."""

    queue: int
    offset: int
    group: str
    op: str
    table: str
    sequence: int | None
    """Of a change that the binlog told; None for a row, or a truncate, of a snapshot."""
    value: dict[str, Any]
    body: bytes


def events_of(lake: str, topic: str) -> list[Seen]:
    """All that the topic has, by queue and offset."""
    with penstock.connect(lake) as opened, opened.reader(topic) as reader:
        return [_seen(message) for message in reader.messages()]


def _seen(message: Any) -> Seen:
    event = json.loads(message.body)["value"]
    value = event.get("payload", event)
    source = value["source"]
    streamed = source["snapshot"] == "false"
    sequence = (
        sequence_of(source["file"], source["pos"], 0 if value["op"] == "t" else source["row"] or 0, value["op"])
        if streamed
        else None
    )
    table = f"{source['db']}.{source['table']}"
    return Seen(message.queue, message.offset, message.message_group, value["op"], table, sequence, value, bytes(message.body))


def check_stream(events: list[Seen], *, reads_once: bool = True) -> None:
    """Every change once, and those of a message group in the order of the binlog; no change of an order is missing between two that are there."""
    changes = [event for event in events if event.sequence is not None]
    places = [(event.sequence, event.table if event.op == "t" else "") for event in changes]  # a statement may empty several tables
    assert len({*places}) == len(places), "a change is there twice"
    last: dict[str, int] = defaultdict(lambda: -1)
    versions: dict[str, int | None] = {}
    reads: set[str] = set()
    # A table that others have come by the name of is emptied and read again, in the stream as in a snapshot.
    emptied = {event.table for event in events if event.op == "t" and (event.sequence is None or ".later" in event.table)}
    for event in events:
        if event.sequence is None:
            if event.op == "r" and reads_once and event.table not in emptied:
                assert event.group not in reads, f"a row was read twice: {event.group}"
                reads.add(event.group)
            continue
        assert event.sequence > last[event.group], event
        last[event.group] = event.sequence
        if event.table == "shop.orders" and event.op != "t":
            _check_version(event, versions)


def _check_version(event: Seen, versions: dict[str, int | None]) -> None:
    """Each update of an order counts: one that is missing leaves a gap."""
    before, after = event.value["before"], event.value["after"]
    if event.group in versions:
        known = versions[event.group]
        assert (before and before["version"]) == known, (event, known)
    if event.op == "u":
        # An ALTER that rewrites rows tells none; all updates of the writers count.
        assert after["version"] == before["version"] + 1, event
    versions[event.group] = None if after is None else after["version"]


def folded(events: list[Seen], *, batches: int) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """The tables that the plain reference of the sync makes of them, in so many batches."""
    return {f"{schema}.{table}": rows for (schema, table), rows in rows_of(events, batches=batches).items()}


def selected(server: MariaDBServer) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """The same by SELECT."""
    tables = {}
    for (name,) in server.ask(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop' AND table_type = 'BASE TABLE'"
    ):
        columns = [row[0] for row in server.ask(f"SHOW COLUMNS FROM shop.`{name}`")]
        keys = [row[4] for row in server.ask(f"SHOW KEYS FROM shop.`{name}` WHERE Key_name = 'PRIMARY'")]
        rows = [dict(zip(columns, row, strict=True)) for row in server.ask(f"SELECT * FROM shop.`{name}`")]
        tables[f"shop.{name}"] = {tuple(row[key] for key in keys): row for row in rows}
    return tables


def comparable(tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]]) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """Without what is NULL, and without tables that are empty; times and bytes in one form."""
    return {
        table: {key: {name: _comparable(value) for name, value in row.items() if value is not None} for key, row in rows.items()}
        for table, rows in tables.items()
        if rows
    }


def _comparable(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case Decimal():
            return value.normalize()
        case _:
            return value
