"""Arrays as columns of targets: element by element as exact as any value."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.events.conversion import KEEP, UnfitValue, converter
from penstock.cdc.events.placeholders import PLACEHOLDER
from penstock.cdc.events.sources import TableId
from penstock.cdc.events.target_types import parse_target_type
from penstock.cdc.target import TableDeclarations, Target, TargetOwner, TargetRefused
from penstock.log.errors import InvalidArgument
from penstock.log.schema.arrow_types import arrow_type
from tests.cdc.applied import Memory
from tests.cdc.columns import target_column
from tests.cdc.reference import Message
from tests.cdc.test_placeholders import forms


def event(op: str, row: dict[str, Any], *, version: str | None = None, key: str = "id") -> bytes:
    source = {"table": "t", "version": version}
    return json.dumps({"key": {key: row[key]}, "value": {"op": op, "after": row, "source": source}}).encode()


def applied(declared: str, *values: object, version: str | None = None) -> object:
    """What the column holds after one event for each value. Raises `UnfitValue` where the table stops."""
    tables = Memory(TableDeclarations.of({"t": {"v": declared}}, None))
    for offset, value in enumerate(values):
        tables.apply([Message(0, offset, event("u", {"id": 1, "v": value}, version=version))])
    for stopped in tables.stopped.values():
        raise UnfitValue(stopped[0][1])
    return tables.rows()["t"][1,]["v"]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("array<bigint>", "array<bigint>"),
        (" ARRAY < Long > ", "array<bigint>"),
        ("array<decimal( 12 , 2 )>", "array<decimal(12,2)>"),
        ("array<array<text>>", "array<array<string>>"),
        ("array<" * 16 + "int" + ">" * 16, "array<" * 16 + "int" + ">" * 16),
    ],
)
def test_names_have_one_spelling(said: str, name: str) -> None:
    assert str(parse_target_type(said)) == name


@pytest.mark.parametrize(
    "said",
    ["array", "array<>", "array<int", "array<money>", "array<map<int,int>>", "array<int>>", "array<" * 17 + "int" + ">" * 17],
)
def test_unknown_ones_are_refused(said: str) -> None:
    with pytest.raises(InvalidArgument, match="this is no type that a column of a target can have"):
        parse_target_type(said)
    with pytest.raises(InvalidArgument, match="this is no type that a column of a target can have"):
        TableDeclarations.of({"t": {"v": said}}, None)


@pytest.mark.parametrize(
    ("kind", "said", "held"),
    [
        ("array<bigint>", [1, "2", None], [1, 2, None]),
        ("array<bigint>", [], []),
        ("array<decimal(12,2)>", ["1.5", Decimal("2.50"), 3], [Decimal("1.50"), Decimal("2.50"), Decimal("3.00")]),
        ("array<array<string>>", [["a", PLACEHOLDER, {"x": 1}], [], None], [["a", PLACEHOLDER, '{"x":1}'], [], None]),
        ("array<timestamp>", ["2023-11-14T22:13:20Z"], [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)]),
        ("array<date>", ["2023-11-14", 1], [date(2023, 11, 14), date(1970, 1, 2)]),
        ("array<binary>", ["AP8="], [b"\x00\xff"]),
        ("array<float>", [0.5, Decimal("0.25")], [0.5, 0.25]),
        ("array<boolean>", [True, "f"], [True, False]),
    ],
)
def test_elements_are_converted_exactly(kind: str, said: Any, held: Any) -> None:
    found = converter(parse_target_type(kind))(said)
    assert found == held
    assert pa.array([found], arrow_type(parse_target_type(kind))).to_pylist() == [held]


@pytest.mark.parametrize(
    ("kind", "said", "reason"),
    [
        ("array<bigint>", [1, "x"], r"\[1,\"x\"\] does not fit array<bigint>: element 2: 'x' does not fit bigint"),
        ("array<tinyint>", [1, 2, 128], "element 3: 128 does not fit tinyint"),
        ("array<decimal(4,2)>", ["1.005"], r"element 1: '1.005' does not fit decimal\(4,2\)"),
        ("array<array<int>>", [[1], [2, True]], "element 2: .* does not fit array<int>: element 2: True does not fit int"),
        ("array<string>", ["\ud800"], "element 1: it has half of a surrogate pair"),
        ("array<int>", "{1,2}", r"'\{1,2\}' does not fit array<int>"),
        ("array<int>", {"a": 1}, "does not fit array<int>"),
        ("array<int>", 1, "1 does not fit array<int>"),
        ("array<array<int>>", [1], r"element 1: 1 does not fit array<int>"),
        ("array<timestamp>", ["infinity"], "element 1: 'infinity' does not fit timestamp"),
    ],
)
def test_an_element_that_does_not_fit_refuses_the_value_and_is_named(kind: str, said: Any, reason: str) -> None:
    with pytest.raises(UnfitValue, match=reason):
        converter(parse_target_type(kind))(said)


@pytest.mark.parametrize("form", [name for name in forms(PLACEHOLDER) if name.endswith("]") or "[]," in name])
@pytest.mark.parametrize("element", ["bigint", "string", "boolean", "double", "decimal(38,0)", "binary"])
def test_a_whole_array_that_was_not_logged_keeps_what_the_row_has(form: str, element: str) -> None:
    assert converter(parse_target_type(f"array<{element}>"))(forms(PLACEHOLDER)[form]) is KEEP


def test_a_row_keeps_its_array_where_it_was_not_logged() -> None:
    assert applied("array<int>", [1, 2], [*PLACEHOLDER.encode()]) == [1, 2]
    assert applied("array<string>", ["a"], [PLACEHOLDER]) == ["a"]
    assert applied("array<string>", ["a"], [PLACEHOLDER, "b"]) == [PLACEHOLDER, "b"]


def test_arrays_that_only_json_tells_are_text() -> None:
    tables = Memory()
    tables.apply([Message(0, 0, event("c", {"id": 1, "v": [1, 2]}))])
    assert tables.rows() == {"t": {(1,): {"id": 1, "v": "[1,2]"}}}
    assert applied("string", [1, None]) == "[1,null]"


def test_forms_are_those_of_elements() -> None:
    at = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert applied("array<timestamp> from milliseconds", [1_700_000_000_123, None]) == [at, None]
    assert applied("array<decimal(12,2)> from base64", ["MDk="]) == [Decimal("123.45")]
    assert applied("array<array<binary>> from hex", [["00ff"]]) == [[b"\x00\xff"]]
    with pytest.raises(UnfitValue, match="element 1: nothing says whether '1234' is digits or bytes in base64"):
        applied("array<decimal(12,2)>", ["1234"], version="3.0.0.Final")
    with pytest.raises(InvalidArgument, match="nothing of this type is written so"):
        TableDeclarations.of({"t": {"v": "array<int> from hex"}}, None)


def test_a_key_is_no_array() -> None:
    told = event("c", {"id": [1, 2], "v": 1})
    tables = Memory()
    tables.apply([Message(0, 0, told)])
    assert tables.rows() == {"t": {("[1,2]",): {"id": "[1,2]", "v": 1}}}
    source = TableId(None, "t")
    with pytest.raises(TargetRefused, match=r"a key's column cannot be an array .*id array<int>"):
        Memory(TableDeclarations.of({"t": {"id": "array<int>"}}, None)).apply([Message(0, 0, told)])
    field = {"field": "id", "type": "array", "items": {"type": "int32"}}
    schema = {"type": "struct", "fields": [field]}
    payload = {"op": "c", "after": {"id": [1, 2]}, "source": {"table": "t"}}
    envelope = {"schema": {"type": "struct", "fields": [{**schema, "field": "after"}]}, "payload": payload}
    body = json.dumps({"key": {"schema": schema, "payload": {"id": [1, 2]}}, "value": envelope}).encode()
    tables = Memory()
    tables.apply([Message(0, 0, body)])
    assert tables.rows() == {"t": {("[1,2]",): {"id": "[1,2]"}}}
    assert tables.targets[source].columns == (target_column("id", "string"),)


KINDS = ("bigint", "decimal(12,2)", "array<string>", "timestamp", "timestamp_ntz", "date", "binary", "float", "boolean")


def test_deltalake_makes_and_finds_columns_of_arrays(tmp_path: Path) -> None:
    columns = (target_column("id", "bigint"), *(target_column(f"c{number}", f"array<{kind}>") for number, kind in enumerate(KINDS)))
    target = Target(TableId(None, "t"), "t", columns, ("id",))
    tables = DeltalakeTargets(str(tmp_path), by_position=True)
    tables.create(target, TargetOwner("topic", 1, "sync"))
    tables.add_columns(target, [target_column("later", "array<timestamp_ntz>")])
    found = tables.find("t")
    assert found is not None
    assert found.columns == (*columns, target_column("later", "array<timestamp_ntz>"))
