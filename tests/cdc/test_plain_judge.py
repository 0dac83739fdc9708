"""Drawn streams of several databases, tables and queues, cut into batches in any way, against a judge that takes one event after the other.

It reads envelopes by the rules of docs/0010, with nothing of the library's, and knows neither queues nor batches nor positions: it is not given
what connectors tell again. So it says what the source's tables have in the end.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias

import pytest

from penstock.cdc.target import TableDeclarations
from tests.cdc.applied import Memory
from tests.cdc.reference import Message

Json: TypeAlias = dict[str, Any]
Name: TypeAlias = tuple[str, ...]
"""Connector, database where there are schemas in it, schema or database, table."""
Tables: TypeAlias = dict[Name, dict[int, Json]]

NOT_LOGGED = "__debezium_unavailable_value"
COLUMNS = {"v": "string", "amount": "decimal(12,2) from base64", "at": "timestamp from milliseconds", "big": "string"}
SCHEMA = [
    {"field": "id", "type": "int64"},
    {"field": "v", "type": "string"},
    {"field": "amount", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    {"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"},
    {"field": "big", "type": "string"},
]
STEPS = ("insert", "insert", "insert", "update", "update", "update", "delete", "rename", "truncate")
MODES = [
    (connector, by_row, typed)
    for connector in ("postgresql", "postgresql without positions", "mysql", "sqlserver")
    for by_row in (False, True)
    for typed in (False, True)
]


def judged(bodies: Sequence[bytes]) -> Tables:
    tables: Tables = {}
    for body in bodies:
        event = json.loads(body)["value"]
        event = event.get("payload", event)
        source = event["source"]
        place = (source["db"], source["schema"]) if "schema" in source else (source["db"],)
        rows = tables.setdefault((source["name"], *place, source["table"]), {})
        before, after = event["before"] or {}, event["after"]
        if event["op"] == "t":
            rows.clear()
        elif event["op"] == "d":
            del rows[before["id"]]
        else:
            old = rows.pop(before.get("id", after["id"]), {})
            rows[after["id"]] = {name: old[name] if value == NOT_LOGGED else plain(name, value) for name, value in after.items()}
    return tables


def plain(name: str, value: Any) -> Any:
    if name == "amount" and value is not None:
        return Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)) / 100
    if name == "at" and value is not None:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    return value


@dataclass
class Told:
    """What a connector says of a database that lives at random."""

    random: Random
    connector: str
    by_row: bool
    """Whether each row has its queue; else each table."""
    typed: bool
    messages: list[tuple[str, bytes]] = field(default_factory=list)
    """Each after what chooses its queue."""
    rows: dict[tuple[str, str], dict[int, Json]] = field(default_factory=dict)
    position: int = 0

    @property
    def positioned(self) -> bool:
        return self.connector in ("postgresql", "mysql")

    def live(self) -> None:
        self.rows = {(database, table): {} for database in ("one", "two") for table in ("t", "u")}
        steps = [step for step in STEPS if step != "truncate" or self.positioned or not self.by_row]
        for _ in range(self.random.randint(5, 60)):
            self.position += self.random.choice((0, 1, 1)) if self.connector == "mysql" else 1  # a compressed transaction
            at = self.random.choice(sorted(self.rows))
            getattr(self, self.random.choice(steps))(at, self.rows[at])

    def insert(self, at: tuple[str, str], rows: dict[int, Json]) -> None:
        if free := [key for key in range(5) if key not in rows]:
            self.tell(at, "c", None, self.row(self.random.choice(free)))

    def update(self, at: tuple[str, str], rows: dict[int, Json]) -> None:
        if rows:
            after = self.row(self.random.choice(sorted(rows)))
            self.tell(at, "u", None, after | self.random.choice(({}, {"big": NOT_LOGGED})))

    def delete(self, at: tuple[str, str], rows: dict[int, Json]) -> None:
        if rows:
            self.tell(at, "d", {"id": self.random.choice(sorted(rows))}, None)

    def rename(self, at: tuple[str, str], rows: dict[int, Json]) -> None:
        free = [key for key in range(5) if key not in rows]
        if rows and free:
            old, new = self.random.choice(sorted(rows)), self.row(self.random.choice(free))
            if self.by_row:  # as connectors do: each key has its own order
                self.tell(at, "d", {"id": old}, None)
                self.tell(at, "c", None, new)
            else:
                self.tell(at, "u", {"id": old}, new | self.random.choice(({}, {"big": NOT_LOGGED})))

    def truncate(self, at: tuple[str, str], rows: dict[int, Json]) -> None:
        self.position += 1  # a transaction of its own
        self.tell(at, "t", None, None)
        self.position += 1

    def row(self, key: int) -> Json:
        amount = self.random.randint(-(10**6), 10**6)
        return {
            "id": key,
            "v": self.random.choice((None, "", "a", "é")),
            "amount": self.random.choice((None, base64.b64encode(amount.to_bytes(3, "big", signed=True)).decode())),
            "at": self.random.choice((None, self.random.randint(0, 2 * 10**12))),
            "big": self.random.choice((None, "x" * 10, "y" * 10)),
        }

    def tell(self, at: tuple[str, str], op: str, before: Json | None, after: Json | None) -> None:
        rows = self.rows[at]
        if op == "t":
            rows.clear()
        elif before is not None:
            del rows[before["id"]]
        if after is not None:
            rows[after["id"]] = after
        key = {"id": (after or before or {}).get("id")} if op != "t" else None
        value: Any = {"op": op, "before": before, "after": after, "source": self.source(*at), "ts_ms": 1}
        if self.connector == "postgresql":
            value["transaction"] = {"id": "1", "total_order": 1, "data_collection_order": 1}
        if self.typed:
            schema = {
                "type": "struct",
                "fields": [{"field": name, "type": "struct", "fields": SCHEMA} for name in ("before", "after")],
            }
            value = {"schema": schema, "payload": value}
        self.messages.append((f"{at} {key}" if self.by_row else str(at), json.dumps({"key": key, "value": value}).encode()))

    def source(self, database: str, table: str) -> Json:
        said = {"name": "srv", "db": database, "table": table}
        match self.connector:
            case "mysql":
                return said | {"file": "binlog.000009", "pos": self.position, "row": 0}
            case "sqlserver":
                return said | {"schema": "dbo", "commit_lsn": f"{self.position:08x}"}
        lsn = str(8 * self.position)
        return said | {"schema": "public", "lsn": 8 * self.position, "sequence": json.dumps([lsn, lsn])}

    def queued(self) -> list[list[Message]]:
        told = list(self.messages)
        if self.positioned and told and self.random.random() < 0.5:  # the connector starts again
            told += told[self.random.randrange(len(told)) :]
        queues: list[list[Message]] = [[] for _ in range(self.random.randint(1, 3))]
        chosen: dict[str, int] = {}
        for what, body in told:
            queue = chosen.setdefault(what, self.random.randrange(len(queues)))
            queues[queue].append(Message(queue, len(queues[queue]), body))
        return queues


def cuts(random: Random, queues: Sequence[Sequence[Message]]) -> Iterator[list[Message]]:
    """Batches: of each queue some, in its order."""
    waiting = [list(queue) for queue in queues]
    while any(waiting):
        most = random.choice((1, 3, 10, 1000))
        batch = []
        for queue in waiting:
            count = random.randint(0, most)
            batch += queue[:count]
            del queue[:count]
        yield batch


def folded(batches: Iterator[list[Message]], tasks: int) -> Tables:
    memory = Memory(TableDeclarations.of({"t": COLUMNS, "u": COLUMNS}, None), tasks=tasks)
    for batch in batches:
        memory.apply(batch)
    assert memory.stopped == {}
    found: Tables = {}
    for source, rows in memory.tables.items():
        name = tuple(part for part in (source.server, source.database, source.schema, source.table) if part)
        found[name] = {int(key[0]): {column: row.values.get(column) for column in ("id", *COLUMNS)} for key, row in rows.items()}
    return found


@pytest.mark.parametrize(("connector", "by_row", "typed"), MODES)
def test_tables_are_the_judge_s_however_batches_are_cut(connector: str, by_row: bool, typed: bool) -> None:
    for seed in range(8):
        random = Random(f"{connector} {by_row} {typed} {seed}")
        told = Told(random, connector, by_row, typed)
        told.live()
        wanted = {name: rows for name, rows in judged([body for _, body in told.messages]).items() if rows}
        queues = told.queued()
        for cut in range(3):
            found = {name: rows for name, rows in folded(cuts(random, queues), random.randint(1, 2)).items() if rows}
            assert found == wanted, (seed, cut)
