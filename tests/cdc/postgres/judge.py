"""What must be in the topic, and in tables made of it: judged by the server itself, over another slot and by SELECT."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import psycopg

import penstock
from penstock.cdc.events.debezium import position_of
from penstock.cdc.postgres.pgoutput import Begin, Delete, Insert, Relation, Truncate, Update, decode
from tests.cdc.reference import rows_of


@dataclass(frozen=True)
class Seen:
    """An event of the topic."""

    queue: int
    offset: int
    group: str
    position: int
    op: str
    table: str
    transaction: int | None
    body: bytes


def events_of(lake: str, topic: str) -> list[Seen]:
    """All that the topic has, by queue and offset."""
    with penstock.connect(lake) as opened, opened.reader(topic) as reader:
        return [_seen(message) for message in reader.messages()]


def _seen(message: Any) -> Seen:
    value = json.loads(message.body)["value"]
    source = value["source"]
    position = position_of(source, value["transaction"])
    assert position is not None
    table = f"{source['schema']}.{source['table']}"
    return Seen(
        message.queue, message.offset, message.message_group, position, value["op"], table, source["txId"], bytes(message.body)
    )


def check_stream(events: list[Seen], expected: list[tuple[int, str, str]]) -> None:
    """Every change once, and of a message group in the order of positions; the whole in the order of commits."""
    positions = [event.position for event in events]
    assert len(set(positions)) == len(positions), "an event is there twice"
    reads = [event.group for event in events if event.op == "r"]
    assert len(set(reads)) == len(reads), "a row was read twice"
    last: dict[str, int] = defaultdict(int)
    for event in events:
        assert event.position > last[event.group], event
        last[event.group] = event.position
    changes = sorted((event for event in events if event.transaction is not None), key=lambda event: event.position)
    assert [(event.transaction, event.table, event.op) for event in changes] == expected


def expected_changes(dsn: str, slot: str, publication: str, since_lsn: int) -> list[tuple[int, str, str]]:
    """Transaction, table and operation of what the server tells another slot, from a place in the log on."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)",
            (slot, publication),
            binary=True,
        ).fetchall()
    relations: dict[int, Relation] = {}
    begin = Begin(0, 0, 0)
    found: list[tuple[int, str, str]] = []

    def add(relation: int, *ops: str) -> None:
        table = relations[relation]
        if begin.commit_lsn >= since_lsn:
            found.extend((begin.transaction, f"{table.schema}.{table.table}", op) for op in ops)

    for (data,) in rows:
        match decode(data):
            case Begin() as begin:
                pass
            case Relation() as relation:
                relations[relation.oid] = relation
            case Insert(relation):
                add(relation, "c")
            case Update(relation, key, old, row):
                before = key or old
                places = [0, 1] if relations[relation].table == "lines" else [0]
                moved = before is not None and any(before[place] != row[place] for place in places)
                add(relation, *(("d", "c") if moved else ("u",)))
            case Delete(relation):
                add(relation, "d")
            case Truncate(emptied):
                for relation in emptied:
                    add(relation, "t")
    return found


def folded(events: list[Seen], *, batches: int) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """The tables that the plain reference of the sync makes of them, in so many batches."""
    return {f"{schema}.{table}": rows for (schema, table), rows in rows_of(events, batches=batches).items()}


def selected(dsn: str) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """The same by SELECT, in the words of JSON."""
    queries = {
        "public.orders": (1, ("SELECT id, customer, amount::text amount, note,"
                             " to_char(changed AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US') changed FROM orders")),
        "public.lines": (2, "SELECT order_id, line, article, replace(encode(picture, 'base64'), E'\\n', '') picture FROM lines"),
        "sales.codes": (1, "SELECT code, meaning, weight, long FROM sales.codes"),
        "public.visits": (1, "SELECT id, seen FROM visits"),
    }  # fmt: skip
    tables = {}
    with psycopg.connect(dsn) as connection:
        for table, (keys, query) in queries.items():
            cursor = connection.execute(query.encode())
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            tables[table] = {row[:keys]: dict(zip(names, row, strict=True)) for row in cursor}
    return tables


def comparable(tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]]) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """Times with all six digits, which events leave out where they are zero, and floats as floats."""
    return {
        table: {key: {name: _comparable(name, value) for name, value in row.items()} for key, row in rows.items()}
        for table, rows in tables.items()
    }


def _comparable(name: str, value: Any) -> Any:
    if name == "changed" and value is not None:
        whole, _, fraction = value.removesuffix("Z").partition(".")
        return f"{whole}.{fraction.ljust(6, '0')}"
    if name == "weight" and value is not None:
        return float(value)
    return value
