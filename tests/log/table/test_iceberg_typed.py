"""Typed topics in Iceberg: columns of every type, and files of every version of the schema as the newest one shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.schema.ddl import parse_ddl
from penstock.log.schema.evolution import evolve
from penstock.log.schema.fields import ArrayType, Field, FieldType, MapType, StructType
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import TopicSchema
from penstock.log.stores.local import LocalStore
from penstock.log.table.delta.actions import add
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.delta.segments import TableFile
from penstock.log.table.delta.table_metadata import Action, Protocol, TableMetadata
from penstock.log.table.iceberg.writer import IcebergWriter, IcebergWriteResult
from tests.log.table.iceberg_readers import by_duckdb, by_pyiceberg, in_order
from tests.log.table.typed_tables import Row, TypedTable
from tests.log.topics import START_MS, HandClock

PATHS = TopicPaths.of("orders")


class Topic(TypedTable):
    """A typed topic's table in a lake in a folder, with adds as Penstock writes them."""

    def __init__(self, lake: Path, ddl: str) -> None:
        self.lake = lake
        super().__init__(lake / PATHS.table("table"), ddl)
        self.store = LocalStore(lake)
        runtime = Runtime(clock=HandClock())
        self.writer = IcebergWriter(self.store, runtime, DeltaLog(self.store, PATHS, "table", runtime))

    def write(self, schema: TopicSchema | None = None) -> IcebergWriteResult:
        return asyncio.run(self.writer.write_once(schema or self.schema))

    def write_knowing_none(self) -> IcebergWriteResult:
        return asyncio.run(self.writer.write_once(None))

    def _commit(self, actions: Sequence[Action]) -> tuple[Protocol, TableMetadata]:
        return super()._commit([self._full(action) for action in actions])

    def _full(self, action: Action) -> Action:
        if "add" not in action:
            return action
        path = action["add"]["path"]
        offsets = pq.read_table(self.path / path, columns=["offset"]).column("offset").to_pylist()
        file = TableFile(path, 0, offsets[0], offsets[-1] + 1, len(offsets), action["add"]["size"], 0, 0, START_MS + self.version)
        return add(file, data_change=True)

    @property
    def expected(self) -> list[Row | None]:
        """The values of all files as the newest schema shows them."""
        files = sorted(self.path.glob("queue=0/*.parquet"), key=lambda file: int(file.stem))
        stored = [pq.ParquetFile(file).read(["value"]).column("value") for file in files]
        return [value for column in stored for value in shown_value(column, self.schema).to_pylist()]

    def check(self) -> None:
        """Both readers find what the newest schema shows."""
        _, rows = by_pyiceberg(self.path)
        shown = StructType(self.schema.fields)
        assert rows.column("value").to_pylist() == [by_rule_of_pyiceberg(value, shown) for value in self.expected]
        assert [row["value"] for row in by_duckdb(self.path)] == self.expected


def by_rule_of_pyiceberg(value: Any, type_: FieldType) -> Any:
    """A value as PyIceberg 0.12 shows it: a list or map of structs is empty where it is NULL (its issue 3833)."""
    match type_:
        case ArrayType(Field(type=StructType())) | MapType(value=Field(type=StructType())) if value is None:
            return []
        case StructType() if value is not None:
            return {field.name: by_rule_of_pyiceberg(value[field.name], field.type) for field in type_.live}
        case _:
            return value


EVERYTHING = (
    "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h string, i binary, j date, k timestamp, l timestamp_ntz,"
    " m decimal(9,2), n decimal(38,10), o struct<x: int, y: struct<z: string>>, p array<string>, q map<string, int>,"
    " r array<struct<s: int, t: array<bigint>>>, u map<string, struct<v: double>>"
)
FULL = {
    "a": True,
    "b": -1,
    "c": -2,
    "d": 3,
    "e": 2**40,
    "f": 1.5,
    "g": 1e300,
    "h": "größe",
    "i": b"\0\1",
    "j": date(1999, 12, 31),
    "k": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    "l": datetime(1969, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001 - of a time without a zone
    "m": Decimal("-1234567.89"),
    "n": Decimal("1234567890123456789012345678.0123456789"),
    "o": {"x": 1, "y": {"z": "deep"}},
    "p": ["one", None],
    "q": [("k", 1), ("l", None)],
    "r": [{"s": 1, "t": [1, 2]}, None, {"s": None, "t": None}],
    "u": [("w", {"v": 0.5}), ("x", None)],
}


def test_columns_of_every_type_are_read_back(tmp_path: Path) -> None:
    topic = Topic(tmp_path, EVERYTHING)
    topic.add([FULL, dict.fromkeys(FULL), None])
    assert topic.write().versions == 1
    assert topic.expected[:2] == [FULL, dict.fromkeys(FULL)]
    topic.check()


CASES: dict[str, tuple[str, Row, str, dict[str, Any], Row]] = {
    "added": ("a int", {"a": 1}, "a int, b string", {}, {"a": 2, "b": "x"}),
    "added to a struct": ("o struct<x: int>", {"o": {"x": 1}}, "o struct<x: int, y: int>", {}, {"o": {"x": 1, "y": 2}}),
    "added in a list": (
        "p array<struct<x: int>>",
        {"p": [{"x": 1}]},
        "p array<struct<x: int, y: int>>",
        {},
        {"p": [{"x": 1, "y": 2}]},
    ),
    "added in a map": (
        "q map<string, struct<x: int>>",
        {"q": [("k", {"x": 1})]},
        "q map<string, struct<x: int, y: int>>",
        {},
        {"q": [("k", {"x": 1, "y": 2})]},
    ),
    "all else retired": ("a int, b string", {"a": 1, "b": "x"}, "c int", {"retire": ["a", "b"]}, {"c": 1}),
    "int to bigint": ("a int", {"a": 1}, "a bigint", {}, {"a": 2**40}),
    "tinyint to int": ("a tinyint", {"a": 1}, "a int", {}, {"a": 2**20}),
    "smallint to bigint": ("a smallint", {"a": 1}, "a bigint", {}, {"a": 2**40}),
    "float to double": ("a float", {"a": 1.5}, "a double", {}, {"a": 1e300}),
    "decimal": ("a decimal(5,2)", {"a": Decimal("1.25")}, "a decimal(12,2)", {}, {"a": Decimal("1234567890.25")}),
    "decimal, large": ("a decimal(9,2)", {"a": Decimal("1.25")}, "a decimal(30,2)", {}, {"a": Decimal("1234567890123456.25")}),
    "widened in a list": ("p array<int>", {"p": [1, None]}, "p array<bigint>", {}, {"p": [2**40]}),
    "widened in a map": ("q map<string, int>", {"q": [("k", 1)]}, "q map<string, bigint>", {}, {"q": [("k", 2**40)]}),
    "renamed": ("a int, b string", {"a": 1, "b": "x"}, "c int, b string", {"rename": {"a": "c"}}, {"a": 2, "b": "y"}),
    "renamed in a struct": ("o struct<x: int>", {"o": {"x": 1}}, "o struct<y: int>", {"rename": {"o.x": "y"}}, {"o": {"x": 2}}),
    "renamed in a list": (
        "p array<struct<x: int>>",
        {"p": [{"x": 1}]},
        "p array<struct<y: int>>",
        {"rename": {"p.element.x": "y"}},
        {"p": [{"x": 2}]},
    ),
    "two names changed over": (
        "a int, b int",
        {"a": 1, "b": 2},
        "b int, a int",
        {"rename": {"a": "b", "b": "a"}},
        {"a": 3, "b": 4},
    ),
    "retired": ("a int, b string", {"a": 1, "b": "x"}, "a int", {"retire": ["b"]}, {"a": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_files_of_an_older_schema_are_read_by_the_newest(case: str, tmp_path: Path) -> None:
    before, old, after, how, new = CASES[case]
    topic = Topic(tmp_path, before)
    topic.add([old, None])
    topic.write()
    topic.check()
    topic.evolve(after, **how)
    topic.write()
    topic.check()  # a schema that no file has yet
    topic.add([new, dict.fromkeys(new), None])
    topic.write()
    topic.check()


def test_a_name_that_is_used_again_is_another_field(tmp_path: Path) -> None:
    topic = Topic(tmp_path, "a int, b string")
    topic.add([{"a": 1, "b": "x"}])
    topic.evolve("a int", retire=["b"])
    topic.add([{"a": 2}])
    topic.evolve("a int, b date")
    topic.add([{"a": 3, "b__3": date(2026, 1, 1)}])
    topic.write()
    assert topic.expected == [{"a": 1, "b": None}, {"a": 2, "b": None}, {"a": 3, "b": date(2026, 1, 1)}]
    topic.check()


def test_files_of_a_version_that_is_not_known_yet_are_not_listed(tmp_path: Path) -> None:
    """A process that has not folded the topic's log would list them without their columns."""
    topic = Topic(tmp_path, "a int")
    topic.add([{"a": 1}])
    assert topic.write_knowing_none().version == 0
    assert topic.write().version == 1
    first = topic.schema
    topic.evolve("a int, b int")
    topic.add([{"a": 2, "b": 2}])
    assert topic.write(first).versions == topic.write_knowing_none().versions == 0
    assert topic.write().versions == 1
    topic.add([{"a": 3, "b": 3}])
    assert topic.write_knowing_none().versions == 1  # the columns are those of the version before
    topic.check()
    assert topic.write(first).versions == 0


def test_an_older_snapshot_is_read_by_its_own_schema(tmp_path: Path) -> None:
    topic = Topic(tmp_path, "a int, b string")
    topic.add([{"a": 1, "b": "x"}])
    topic.write()
    topic.evolve("c int", rename={"a": "c"}, retire=["b"])
    topic.add([{"a": 2}])
    topic.write()
    found = StaticTable.from_metadata(str(topic.path))
    before, after = found.metadata.snapshots
    assert (before.schema_id, after.schema_id) == (1, 2)
    assert found.scan(snapshot_id=before.snapshot_id).to_arrow().column("value").to_pylist() == [{"a": 1, "b": "x"}]
    assert in_order(found.scan().to_arrow()).column("value").to_pylist() == [{"c": 1}, {"c": 2}]


def test_fields_can_be_asked_for_alone(tmp_path: Path) -> None:
    topic = Topic(tmp_path, "a int, o struct<x: int, y: string>")
    topic.add([{"a": n, "o": {"x": n * n, "y": str(n)}} for n in range(5)])
    topic.write()
    query = "SELECT value.o.x AS x FROM found WHERE value.a >= 3 ORDER BY x"
    assert by_duckdb(topic.path, query) == [{"x": 9}, {"x": 16}]
    found = (
        StaticTable.from_metadata(str(topic.path))
        .scan(row_filter="value.a >= 3", selected_fields=("offset", "value.o.y"))
        .to_arrow()
    )
    assert found.column("value").to_pylist() == [{"o": {"y": "3"}}, {"o": {"y": "4"}}]


def test_an_evolution_alone_is_a_version_without_a_snapshot(tmp_path: Path) -> None:
    """Readers know a field before the first file that has it."""
    topic = Topic(tmp_path, "a int")
    topic.add([{"a": 1}])
    first = topic.write()
    later = evolve(topic.schema, parse_ddl("b bigint, c string"), rename={"a": "b"})
    second = topic.write(later)
    assert (second.version, second.delta_version, second.versions) == (first.version + 1, first.delta_version, 1)
    assert topic.write(later).versions == 0
    _, rows = by_pyiceberg(topic.path)
    assert rows.column("value").to_pylist() == [{"b": 1, "c": None}]
    older = topic.write(topic.schema)  # by a process that has not heard of it: nothing goes back
    assert older.versions == 0
    assert by_pyiceberg(topic.path)[1].column("value").to_pylist() == [{"b": 1, "c": None}]


def test_a_snapshot_of_a_writer_that_is_behind_has_the_newest_schema(tmp_path: Path) -> None:
    topic = Topic(tmp_path, "a int")
    topic.add([{"a": 1}])
    later = evolve(topic.schema, parse_ddl("b bigint"), rename={"a": "b"})
    topic.write(later)
    topic.add([{"a": 2}])
    assert topic.write(topic.schema).versions == 1
    table = StaticTable.from_metadata(str(max(topic.path.glob("metadata/v*.metadata.json"))))
    current = table.current_snapshot()
    assert current is not None
    assert current.schema_id == 2
    assert current.parent_snapshot_id is not None
    assert by_pyiceberg(topic.path)[1].column("value").to_pylist() == [{"b": 1}, {"b": 2}]
