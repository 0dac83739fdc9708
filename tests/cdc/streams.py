"""Change streams as hypothesis draws them: a small database, what is done to it, and what its connector says of that.

The database knows what its tables hold in the end, so that the judge (`reference.py`) is judged too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from tests.cdc.kinds import KINDS, Kind
from tests.cdc.reference import MARKER, MARKER_OF_BYTES, Key, Message, Values

KEY_KINDS = ("bigint", "text", "binary")


@dataclass(frozen=True)
class Table:
    """One table of the source, as it is at one time."""

    name: str
    key: dict[str, str]
    """Column to kind."""
    columns: dict[str, str]


Flavour: TypeAlias = Literal["postgres", "postgres without transactions", "mysql", "mysql, compressed"]


@dataclass(frozen=True)
class Told:
    """One message of the connector."""

    body: bytes
    row: str
    """What must come in order: the table and the key."""
    table: str


@dataclass
class Connector:
    """How a connector tells what happens."""

    flavour: Flavour
    typed: bool
    """With Connect's schemas; else the user declares what JSON cannot say."""
    splits: bool
    """Whether the change of a key is a delete and a create."""
    tombstones: bool
    told: list[Told] = field(default_factory=list)
    transaction: int = 100
    order: int = 0

    def tell(self, table: Table, op: str, key: Values | None, before: Values | None = None, after: Values | None = None) -> None:
        self.order += 1
        value: Any = {
            "before": self._row(table, before),
            "after": self._row(table, after),
            "source": self._source(table, snapshot=op == "r"),
            "op": op,
            "ts_ms": 1795177053194,
        }
        if self.flavour == "postgres" and op != "r":
            value["transaction"] = {"id": str(self.transaction), "total_order": self.order, "data_collection_order": 1}
        self._send(table, key, value)
        if op == "d" and self.tombstones:
            self._send(table, key, None)

    def begin(self, further: int = 1) -> None:
        """The next transaction."""
        self.transaction, self.order = self.transaction + further, 0

    def _send(self, table: Table, key: Values | None, value: Any) -> None:
        told_key = key and self._row(table, key)
        if self.typed:
            if told_key is not None:
                told_key = {"schema": self._struct(table, only_key=True), "payload": told_key}
            if value is not None:
                rows = [{**self._struct(table), "optional": True, "field": name} for name in ("before", "after")]
                value = {"schema": {"type": "struct", "fields": rows, "name": f"{table.name}.Envelope"}, "payload": value}
        body = json.dumps({"topic": f"s.{table.name}", "key": told_key, "value": value}, ensure_ascii=False).encode()
        self.told.append(Told(body, f"{table.name} {json.dumps(told_key)}", table.name))

    def _struct(self, table: Table, *, only_key: bool = False) -> dict[str, Any]:
        columns = table.key if only_key else table.key | table.columns
        return {
            "type": "struct",
            "fields": [{**KINDS[kind].schema, "optional": name not in table.key, "field": name} for name, kind in columns.items()],
        }

    def _row(self, table: Table, row: Values | None) -> Any:
        kinds = table.key | table.columns
        return row and {name: self._value(KINDS[kinds[name]], value) for name, value in row.items()}

    def _value(self, kind: Kind, value: Any) -> Any:
        if value is UNCHANGED:
            return MARKER_OF_BYTES if kind is KINDS["binary"] else [MARKER] if kind is KINDS["array"] else MARKER
        if value is None:
            return None
        return kind.connect(value) if self.typed else kind.plain(value)

    def _source(self, table: Table, *, snapshot: bool) -> dict[str, Any]:
        common = {"snapshot": "true" if snapshot else "false", "db": "shop", "table": table.name}
        if self.flavour.startswith("mysql"):
            compressed = self.flavour == "mysql, compressed"
            place = {"file": "binlog.000007", "pos": 1_000 * self.transaction + (0 if compressed else self.order), "row": 0}
            return {"connector": "mysql", **common, **place}
        lsn = 8 * self.transaction
        return {"connector": "postgresql", "schema": "public", **common, "lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)])}


class _Unchanged:
    """A large value that an update left alone."""


UNCHANGED = _Unchanged()


@dataclass(frozen=True)
class Stream:
    """What was told, and what there is in the end."""

    told: tuple[Told, ...]
    flavour: Flavour
    declared: dict[str, dict[str, str]]
    tables: dict[str, Table]
    rows: dict[str, dict[Key, Values]]
    splits: bool
    restarts: bool

    @property
    def positioned(self) -> bool:
        return self.flavour != "postgres without transactions"

    @property
    def schema(self) -> str:
        return "shop" if self.flavour.startswith("mysql") else "public"


class _Database:
    """Draws what happens, and tells it."""

    def __init__(self, draw: st.DrawFn, connector: Connector, tables: Sequence[Table]) -> None:
        self.draw, self.connector = draw, connector
        self.tables = {table.name: table for table in tables}
        self.keys = {
            table.name: draw(
                st.lists(st.tuples(*(KINDS[kind].values for kind in table.key.values())), min_size=2, max_size=4, unique=True)
            )
            for table in tables
        }
        self.rows: dict[str, dict[Key, Values]] = {table.name: {} for table in tables}
        self.restarts = False

    def snapshot(self) -> None:
        for table in self.tables.values():
            for key in self.draw(st.lists(st.sampled_from(self.keys[table.name]), unique=True)):
                self.rows[table.name][key] = self.row(table, key)
                self.connector.tell(table, "r", self.key(table, key), None, self.rows[table.name][key])

    def step(self, doing: str) -> None:
        table = self.tables[self.draw(st.sampled_from(sorted(self.tables)))]
        if self.draw(st.booleans()):
            self.connector.begin(self.draw(st.integers(1, 50)))
        match doing:
            case "write" | "update":
                self.write(table)
            case "delete":
                self.delete(table)
            case "rename":
                self.change_key(table)
            case "truncate":  # a transaction of its own
                self.rows[table.name].clear()
                self.connector.begin()
                self.connector.tell(table, "t", None)
                self.connector.begin()
            case "add column":
                self.add_column(table)
            case "drop column":
                self.drop_column(table)
            case "restart":
                self.restarts = True
                told = self.connector.told
                told.extend(told[self.draw(st.integers(0, len(told))) :])

    def write(self, table: Table) -> None:
        rows = self.rows[table.name]
        key = self.draw(st.sampled_from(self.keys[table.name]))
        if key not in rows:
            rows[key] = self.row(table, key)
            self.connector.tell(table, "c", self.key(table, key), None, rows[key])
            return
        unchanged = self.large_unchanged(table)
        before = rows[key]
        rows[key] = self.row(table, key) | {name: before.get(name) for name in unchanged}
        rows[key] = before | rows[key]
        shown = {name: rows[key].get(name) for name in table.key | table.columns}
        self.connector.tell(
            table, "u", self.key(table, key), self.before(table, before), shown | dict.fromkeys(unchanged, UNCHANGED)
        )

    def delete(self, table: Table) -> None:
        rows = self.rows[table.name]
        if rows:
            key = self.draw(st.sampled_from(sorted(rows, key=repr)))
            self.connector.tell(table, "d", self.key(table, key), self.before(table, rows.pop(key)) or self.key(table, key))

    def change_key(self, table: Table) -> None:
        rows = self.rows[table.name]
        free = [key for key in self.keys[table.name] if key not in rows]
        if not rows or not free:
            return
        old, new = self.draw(st.sampled_from(sorted(rows, key=repr))), self.draw(st.sampled_from(free))
        before = rows.pop(old)
        row = {name: before.get(name) for name in table.key | table.columns} | self.key(table, new)
        if self.connector.splits:
            # The create shows the columns that the table has now; what was dropped before is gone with the old key.
            rows[new] = row
            self.connector.tell(table, "d", self.key(table, old), self.key(table, old))
            self.connector.tell(table, "c", self.key(table, new), None, row)
            return
        unchanged = self.large_unchanged(table)
        rows[new] = before | row
        shown = row | dict.fromkeys(unchanged, UNCHANGED)
        self.connector.tell(table, "u", self.key(table, new), self.key(table, old), shown)

    def add_column(self, table: Table) -> None:
        name = f"added_{len(self.connector.told)}"
        kind = self.draw(st.sampled_from(sorted(KINDS)))
        self.tables[table.name] = replace(table, columns={**table.columns, name: kind})

    def drop_column(self, table: Table) -> None:
        if len(table.columns) > 1:
            name = self.draw(st.sampled_from(sorted(table.columns)))
            self.tables[table.name] = replace(table, columns={n: kind for n, kind in table.columns.items() if n != name})

    def large_unchanged(self, table: Table) -> list[str]:
        large = sorted(name for name, kind in table.columns.items() if kind in ("text", "binary"))
        return self.draw(st.lists(st.sampled_from(large), unique=True)) if large else []

    def row(self, table: Table, key: Key) -> Values:
        columns = {name: self.draw(st.none() | KINDS[kind].values) for name, kind in table.columns.items()}
        return self.key(table, key) | columns

    @staticmethod
    def key(table: Table, key: Key) -> Values:
        return dict(zip(table.key, key, strict=True))

    def before(self, table: Table, row: Values) -> Values | None:
        """Nothing, the key or all, as the replica identity says."""
        shown = self.draw(st.sampled_from(["nothing", "key", "all"]))
        if shown == "nothing":
            return None
        return {name: row.get(name) for name in (table.key if shown == "key" else table.key | table.columns)}


STEPS = ("write", "write", "update", "update", "delete", "rename", "truncate", "add column", "drop column", "restart")


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    flavours: Sequence[Flavour] = ("postgres", "postgres without transactions", "mysql", "mysql, compressed"),
    without: Sequence[str] = (),
    splits: bool | None = None,
    max_steps: int = 25,
) -> Stream:
    """A stream of one to three tables."""
    flavour = draw(st.sampled_from(flavours))
    connector = Connector(
        flavour, draw(st.booleans()), draw(st.booleans()) if splits is None else splits, tombstones=draw(st.booleans())
    )
    tables = []
    for number in range(draw(st.integers(1, 3))):
        key = {f"k{n}": draw(st.sampled_from(KEY_KINDS)) for n in range(draw(st.integers(1, 2)))}
        columns = {f"c{n}": draw(st.sampled_from(sorted(KINDS))) for n in range(draw(st.integers(1, 3)))}
        tables.append(Table(f"t{number}", key, columns))
    database = _Database(draw, connector, tables)
    kinds = {table.name: table.key | table.columns for table in tables}
    if draw(st.booleans()):
        database.snapshot()
    for doing in draw(st.lists(st.sampled_from([step for step in STEPS if step not in without]), max_size=max_steps)):
        database.step(doing)
        for table in database.tables.values():
            kinds[table.name] |= table.columns
    declared = {
        table: {name: kind for name, column in columns.items() if (kind := KINDS[column].declared) is not None}
        for table, columns in kinds.items()
    }
    return Stream(
        told=tuple(connector.told),
        flavour=flavour,
        declared={} if connector.typed else declared,
        tables=database.tables,
        rows=database.rows,
        splits=connector.splits,
        restarts=database.restarts,
    )


By: TypeAlias = Literal["table", "row", "chance"]


@st.composite
def batches(draw: st.DrawFn, told: Sequence[Told], by: By = "table") -> list[list[Message]]:
    """Messages laid into queues and read in batches of any size: of each queue some in each batch, in its order.

    ``by`` says what has a queue of its own choosing: a table, a row, or each message.
    """
    queues = draw(st.integers(1, 4))
    chosen: dict[str, int] = {}
    queued: list[list[Message]] = [[] for _ in range(queues)]
    for place, message in enumerate(told):
        what = {"table": message.table, "row": message.row, "chance": str(place)}[by]
        if what not in chosen:
            chosen[what] = draw(st.integers(0, queues - 1))
        queue = queued[chosen[what]]
        queue.append(Message(chosen[what], 10 * chosen[what] + len(queue), message.body))
    cut: list[list[Message]] = []
    while any(queued):
        counts = [draw(st.integers(0, len(queue))) for queue in queued]
        if not any(counts):  # at least one goes on
            counts = [len(queue) for queue in queued]
        cut.append([message for queue, count in zip(queued, counts, strict=True) for message in queue[:count]])
        queued = [queue[count:] for queue, count in zip(queued, counts, strict=True)]
    return cut
