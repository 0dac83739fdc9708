"""Delta tables of typed topics, file by file, each with the stored form of the schema of its time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.schema.ddl import parse_ddl
from penstock.log.schema.evolution import evolve
from penstock.log.schema.fields import ArrayType, Field, FieldType, MapType, StructType
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from penstock.log.table.delta.actions import add, metadata, parse_action, protocol
from penstock.log.table.delta.checkpoint import encode_delta_checkpoint, encode_last_checkpoint
from penstock.log.table.delta.segments import TableFile
from penstock.log.table.delta.snapshot import Snapshot, apply
from penstock.log.table.delta.table_metadata import Action, Protocol, TableMetadata
from penstock.log.table.delta.table_schema import table_form, table_update

Row: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[pa.Table], pa.Table]


class TypedTable:
    """A table in a folder."""

    def __init__(self, folder: Path, schema: str | tuple[Field, ...]) -> None:
        self.path = folder
        (folder / "_delta_log").mkdir(parents=True)
        self.schema = first_schema(_fields(schema))
        self._snapshot = Snapshot("table")
        self._stored: list[pa.Array] = []
        form = table_form(self.schema)
        self._commit([protocol(form), metadata("11111111-2222-3333-4444-555555555555", 1, form)])

    @property
    def version(self) -> int:
        return self._snapshot.version

    def evolve(self, schema: str | tuple[Field, ...], *, rename: dict[str, str] | None = None, retire: Sequence[str] = ()) -> None:
        self.schema = evolve(self.schema, _fields(schema), rename=rename, retire=retire)
        found = self._snapshot
        assert found.metadata is not None
        assert found.protocol is not None
        actions = table_update(found.metadata, found.protocol, table_form(self.schema))
        assert actions
        self._commit(actions)

    def add(self, values: Sequence[Row | None], *, schema: TopicSchema | None = None, change: Change = lambda file: file) -> None:
        """A file with these values, by stored names. ``schema`` is the writer's, if it is another than the table's."""
        first, count = sum(map(len, self._stored)), len(values)
        stored = pa.array(values, (schema or self.schema).stored_arrow)
        columns = {field.name: pa.nulls(count, field.type) for field in MESSAGE_SCHEMA}
        times = pa.array([datetime.fromtimestamp(0, UTC)] * count, MESSAGE_SCHEMA.field("store_timestamp").type)
        columns |= {"offset": pa.array(range(first, first + count), pa.int64()), "store_timestamp": times, "value": stored}
        path = f"queue=0/{self._snapshot.version + 1}.parquet"
        (self.path / path).parent.mkdir(exist_ok=True)
        file = change(pa.table(columns))
        pq.write_table(file, self.path / path, store_schema=False)
        self._stored.append(stored if "value" in file.column_names else pa.nulls(count, stored.type))
        size_bytes = (self.path / path).stat().st_size
        self._commit([add(TableFile(path, 0, first, first + count, count, size_bytes, 0, 0, 1), data_change=True)])

    def add_shown(self, values: Sequence[Row | None]) -> None:
        """A file with these values, by the names of now."""
        self.add([_stored(value, StructType(self.schema.fields)) for value in values])

    @property
    def rows(self) -> list[Any]:
        """What readers should find in the column `value`, in the order of offsets: what Penstock's own readers show."""
        return [plain(row) for stored in self._stored for row in shown_value(stored, self.schema).to_pylist()]

    def _commit(self, actions: Sequence[Action]) -> tuple[Protocol, TableMetadata]:
        version = self._snapshot.version + 1
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (self.path / "_delta_log" / f"{version:020d}.json").write_text(lines)
        logged = [one for action in actions for one in parse_action(action, where="here")]
        self._snapshot = after = apply(self._snapshot, [(version, logged)])
        assert after.protocol is not None
        assert after.metadata is not None
        return after.protocol, after.metadata

    def checkpoint(self) -> None:
        """Replace the commits by a checkpoint."""
        log = self.path / "_delta_log"
        for commit in log.iterdir():
            commit.unlink()
        data, count = encode_delta_checkpoint(self._snapshot)
        (log / f"{self._snapshot.version:020d}.checkpoint.parquet").write_bytes(data)
        (log / "_last_checkpoint").write_bytes(encode_last_checkpoint(self._snapshot.version, count))


def _fields(schema: str | tuple[Field, ...]) -> tuple[Field, ...]:
    return parse_ddl(schema) if isinstance(schema, str) else schema


def _stored(value: Any, type_: FieldType) -> Any:
    """A value whose fields have the names by which they are stored."""
    match type_, value:
        case _, None:
            return None
        case StructType(), _:
            return {field.stored_name: _stored(value.get(field.name), field.type) for field in type_.live}
        case ArrayType(element), _:
            return [_stored(one, element.type) for one in value]
        case MapType(_, item), _:
            return [(key, _stored(one, item.type)) for key, one in value]
        case _:
            return value


def plain(value: Any) -> Any:
    """A value in which the entries of maps are like what readers without maps show."""
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return [plain(part) for part in value]
        case (key, part):
            return {"key": plain(key), "value": plain(part)}
        case _:
            return value


@dataclass(frozen=True)
class Step:
    """The schema from here on, and a file written with it."""

    ddl: str
    values: tuple[Row | None, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    retire: tuple[str, ...] = ()


def made(folder: Path, names: Sequence[str]) -> TypedTable:
    """A table whose column has a struct for each of these evolutions."""
    evolutions = {f"c{number}": EVOLUTIONS[name] for number, name in enumerate(names)}
    ddls = {column: steps[0].ddl for column, steps in evolutions.items()}
    table = TypedTable(folder, _structs(ddls))
    for number in range(max(map(len, evolutions.values()))):
        steps = {column: steps[number] for column, steps in evolutions.items() if number < len(steps)}
        if number:
            ddls |= {column: step.ddl for column, step in steps.items()}
            rename = {f"{column}.{path}": name for column, step in steps.items() for path, name in step.rename}
            retire = [f"{column}.{path}" for column, step in steps.items() for path in step.retire]
            table.evolve(_structs(ddls), rename=rename, retire=retire)
        rows = zip_longest(*(step.values for step in steps.values()))
        if values := [dict(zip(steps, row, strict=True)) for row in rows]:
            table.add_shown(values)
    return table


def _structs(ddls: dict[str, str]) -> tuple[Field, ...]:
    return tuple(Field(column, StructType(parse_ddl(ddl))) for column, ddl in ddls.items())


def made_alone(folder: Path, name: str) -> TypedTable:
    first, *later = EVOLUTIONS[name]
    table = TypedTable(folder, first.ddl)
    table.add_shown(first.values)
    for step in later:
        table.evolve(step.ddl, rename=dict(step.rename), retire=step.retire)
        if step.values:
            table.add_shown(step.values)
    return table


NOON = datetime(2026, 1, 2, 12, 0, 0, 123_456)  # noqa: DTZ001 - of times without a zone
SMALL, LARGE = Decimal("1.25"), Decimal("12345678901.25")
EVOLUTIONS: dict[str, tuple[Step, ...]] = {
    "all types": (
        Step(
            "b boolean, t tinyint, s smallint, i int, l bigint, f float",
            ({"b": True, "t": 1, "s": 2, "i": 3, "l": 4, "f": 1.5}, None),
        ),
        Step(
            "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, c string, x binary, day date, at timestamp, m decimal(38,10)",
            ({"d": 2.5, "c": "x", "x": b"y", "day": NOON.date(), "at": NOON.replace(tzinfo=UTC), "m": SMALL},),
        ),
    ),
    "null struct and struct of nulls": (
        Step("a int, s struct<x: int>", (None, {"a": None, "s": None}, {"a": None, "s": {"x": None}}, {"a": 1, "s": {"x": 1}})),
    ),
    "wider": (
        Step("i int, t tinyint, f float, d decimal(9,2)", ({"i": 1, "t": -1, "f": 1.5, "d": SMALL},)),
        Step("i bigint, t int, f double, d decimal(18,2)", ({"i": 2**40, "t": 2**20, "f": 1e300, "d": LARGE},)),
    ),
    "wider decimals": (
        Step(
            "a decimal(5,2), b decimal(9,2), c decimal(18,2), d decimal(20,2)", ({"a": SMALL, "b": SMALL, "c": SMALL, "d": SMALL},)
        ),
        Step(
            "a decimal(9,2), b decimal(38,2), c decimal(38,2), d decimal(38,2)", ({"a": SMALL, "b": LARGE, "c": LARGE, "d": LARGE},)
        ),
    ),
    "wider in a struct": (
        Step("s struct<i: int, f: float, d: decimal(9,2)>", ({"s": {"i": 1, "f": 1.5, "d": SMALL}},)),
        Step("s struct<i: bigint, f: double, d: decimal(18,2)>", ({"s": {"i": 2**40, "f": 1e300, "d": LARGE}},)),
    ),
    "wider in a list": (
        Step("i array<int>, f array<float>, d array<decimal(9,2)>", ({"i": [1, 2], "f": [1.5], "d": [SMALL]},)),
        Step("i array<bigint>, f array<double>, d array<decimal(20,2)>", ({"i": [2**40], "f": [1e300], "d": [LARGE]},)),
    ),
    "wider in a list's struct": (
        Step("l array<struct<i: int>>", ({"l": [{"i": 1}]},)),
        Step("l array<struct<i: bigint>>", ({"l": [{"i": 2**40}]},)),
    ),
    "wider map values": (
        Step("m map<string, int>, f map<string, float>", ({"m": [("k", 1)], "f": [("k", 1.5)]},)),
        Step("m map<string, bigint>, f map<string, double>", ({"m": [("k", 2**40)], "f": [("k", 1e300)]},)),
    ),
    "wider map keys": (
        Step("m map<int, string>", ({"m": [(1, "x")]},)),
        Step("m map<bigint, string>", ({"m": [(2**40, "y")]},)),
    ),
    "a new field": (
        Step("a int", ({"a": 1}, None)),
        Step("a int, b string, s struct<x: int>", ({"a": 2, "b": "x", "s": {"x": 1}}, {"a": 3, "b": None, "s": None})),
    ),
    "a new field in a struct": (
        Step("s struct<x: int>", ({"s": {"x": 1}}, {"s": None}, None)),
        Step("s struct<x: int, y: string>", ({"s": {"x": 2, "y": "y"}},)),
    ),
    "a new field in a list's struct": (
        Step("l array<struct<x: int>>", ({"l": [{"x": 1}, None]}, {"l": None}, {"l": []})),
        Step("l array<struct<x: int, y: string>>", ({"l": [{"x": 2, "y": "y"}]},)),
    ),
    "a new field in a map's struct": (
        Step("m map<string, struct<x: int>>", ({"m": [("k", {"x": 1})]}, {"m": None})),
        Step("m map<string, struct<x: int, y: string>>", ({"m": [("k", {"x": 2, "y": "y"})]},)),
    ),
    "a retired field": (
        Step(
            "a int, s struct<x: int, y: int>, l array<struct<x: int, y: int>>",
            ({"a": 1, "s": {"x": 1, "y": 2}, "l": [{"x": 1, "y": 2}]},),
        ),
        Step("s struct<y: int>, l array<struct<y: int>>", ({"s": {"y": 3}, "l": [{"y": 3}]},), retire=("a", "s.x", "l.element.x")),
    ),
    "a retired and a new field in a map's struct": (
        Step("m map<string, struct<x: int, y: int>>", ({"m": [("k", {"x": 1, "y": 2})]},)),
        Step("m map<string, struct<y: int, z: int>>", ({"m": [("k", {"y": 3, "z": 4})]},), retire=("m.value.x",)),
    ),
    "none of the top fields in the file": (
        Step("a int", ({"a": 1}, None)),
        Step("a int, b int"),
        Step("b int", ({"b": 3},), retire=("a",)),
    ),
    "none of a struct's fields in the file": (
        Step("a int, s struct<x: int>", ({"a": 1, "s": {"x": 1}}, {"a": 2, "s": None}, None)),
        Step("a int, s struct<x: int, y: int>"),
        Step("a int, s struct<y: int>", ({"a": 3, "s": {"y": 3}},), retire=("s.x",)),
    ),
    "none of the fields of a list's struct in the file": (
        Step("l array<struct<x: int>>", ({"l": [{"x": 1}, None]}, {"l": None})),
        Step("l array<struct<x: int, y: int>>"),
        Step("l array<struct<y: int>>", ({"l": [{"y": 3}]},), retire=("l.element.x",)),
    ),
    "a renamed field": (
        Step("a int, s struct<x: int>, l array<struct<x: int>>", ({"a": 1, "s": {"x": 1}, "l": [{"x": 1}]},)),
        Step(
            "b int, s struct<y: int>, l array<struct<z: int>>",
            ({"b": 2, "s": {"y": 2}, "l": [{"z": 2}]},),
            rename=(("a", "b"), ("s.x", "y"), ("l.element.x", "z")),
        ),
    ),
    "a renamed field in a map's struct": (
        Step("m map<string, struct<x: int>>", ({"m": [("k", {"x": 1})]},)),
        Step("m map<string, struct<y: int>>", ({"m": [("k", {"y": 2})]},), rename=(("m.value.x", "y"),)),
    ),
    "a renamed, wider field beside new ones": (
        Step("a int, s struct<x: int>", ({"a": 1, "s": {"x": 1}},)),
        Step(
            "b bigint, s struct<y: bigint, n: string>, c string",
            ({"b": 2**40, "s": {"y": 2**40, "n": "n"}, "c": "c"},),
            rename=(("a", "b"), ("s.x", "y")),
        ),
    ),
    "a name used again": (
        Step("a int, b string, s struct<x: int, y: string>", ({"a": 1, "b": "x", "s": {"x": 1, "y": "y"}},)),
        Step("a int, s struct<x: int>", ({"a": 2, "s": {"x": 2}},), retire=("b", "s.y")),
        Step("a int, s struct<x: int, y: string>, b bigint", ({"a": 3, "s": {"x": 3, "y": "z"}, "b": 7},)),
    ),
    "a time without zone": (
        Step("a int", ({"a": 1},)),
        Step("a int, t timestamp_ntz, l array<timestamp_ntz>", ({"a": 2, "t": NOON, "l": [NOON]},)),
    ),
    "a time without zone beside a renamed field": (
        Step("a int, t timestamp_ntz", ({"a": 1, "t": NOON},)),
        Step("b int, t timestamp_ntz", ({"b": 2, "t": NOON},), rename=(("a", "b"),)),
    ),
}
"""Tables by what happens to their schemas."""


def table_of(folder: Path, name: str) -> TypedTable:
    """The table of one of the evolutions, or of one of the cases that have files of another form."""
    match name:
        case "a file with more fields than the schema":
            table = TypedTable(folder, "a int, s struct<x: int>, l array<struct<x: int>>")
            table.add([{"a": 1, "s": {"x": 1}, "l": [{"x": 1}]}])
            newer = evolve(table.schema, parse_ddl("a int, s struct<x: int, y: int>, l array<struct<x: int, y: int>>, b string"))
            table.add([{"a": 2, "s": {"x": 2, "y": 2}, "l": [{"x": 2, "y": 2}], "b": "b"}, None], schema=newer)
        case "a file with another order of fields":
            table = TypedTable(folder, "a int, b string, s struct<x: int, y: string>")
            table.add([{"a": 1, "b": "b", "s": {"x": 1, "y": "y"}}, None])
            table.add([{"a": 1, "b": "b", "s": {"x": 1, "y": "y"}}, None], change=turned_round)
        case "a file without the column":
            table = TypedTable(folder, "a int, s struct<x: int>")
            table.add([None, None], change=lambda file: file.drop_columns(["value"]))
            table.add([{"a": 2, "s": {"x": 1}}])
        case _:
            return made_alone(folder, name)
    return table


def turned_round(file: pa.Table) -> pa.Table:
    return pa.table({name: _turned_round(file.column(name).combine_chunks()) for name in reversed(file.column_names)})


def _turned_round(column: pa.Array) -> pa.Array:
    if not pa.types.is_struct(column.type):
        return column
    names = [column.type.field(number).name for number in reversed(range(column.type.num_fields))]
    return pa.StructArray.from_arrays([_turned_round(column.field(name)) for name in names], names=names, mask=column.is_null())


FILES = ("a file with more fields than the schema", "a file with another order of fields", "a file without the column")
CASES = (*EVOLUTIONS, *FILES)
MAPPED = frozenset(name for name in CASES if "renamed" in name or "used again" in name)
"""Those whose tables have column mapping."""
