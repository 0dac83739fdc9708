"""The texts of types, as options, stored objects and tables have them: they are read and written for ever as here."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.events.sources import TableId
from penstock.cdc.events.table_types import TableTypes, decode_types
from penstock.cdc.events.target_types import parse_target_type
from penstock.cdc.target import Target, TargetOwner
from penstock.log.errors import InvalidArgument
from penstock.log.schema.arrow_types import arrow_type
from penstock.log.schema.ddl import parse_ddl
from penstock.log.schema.widening import holds, holds_stored, required_type, widest
from tests.cdc.columns import target_column, target_types

SPELLINGS = {
    "boolean": "boolean",
    "bool": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "text": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "decimal": "decimal(10,0)",
    "dec": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "decimal(12,2)": "decimal(12,2)",
    "dec( 5 )": "decimal(5,0)",
    "numeric(38,38)": "decimal(38,38)",
    " ARRAY < Long > ": "array<bigint>",
    "array<array<decimal( 9 )>>": "array<array<decimal(9,0)>>",
    "varchar": "string",
    "bytes": "binary",
    "timestamptz": "timestamp",
    "double precision": "double",
    "Decimal ( 12 , 2 )": "decimal(12,2)",
}
"""The types of targets and of topics."""
OF_TOPICS = {
    "map<string,array<int>>": "map<string, array<int>>",
    "struct<a: int, b: struct<c: text not null>>": "struct<a: int, b: struct<c: string not null>>",
    "array<map<byte,int>>": "array<map<tinyint, int>>",
}
NO_TYPES = (
    "money",
    "varchar(10)",
    "int(4)",
    "array",
    "array<>",
    "array<int",
    "array<int>>",
    "variant",
    "void",
    "",
    "null",
    "decimal(a)",
)
NOT_OF_TARGETS = ("decimal(39,0)", "decimal(0,0)", "decimal(2,3)", "map<string,int>", "struct<a:int>", "array<map<int,int>>")

ARROW = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date32[day]",
    "timestamp": "timestamp[us, tz=UTC]",
    "timestamp_ntz": "timestamp[us]",
    "decimal(12,2)": "decimal128(12, 2)",
    "array<array<decimal(38,0)>>": "list<element: list<element: decimal128(38, 0)>>",
}
DELTA = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "array<array<decimal(38,0)>>": {
        "type": "array",
        "elementType": {"type": "array", "elementType": "decimal(38,0)", "containsNull": True},
        "containsNull": True,
    },
}
"""Delta's names of types, where they are others."""

NUMBERS = "decimal(5,1) decimal(12,2) decimal(19,0) decimal(38,0) decimal(38,38) boolean float double string binary date"
TYPES = f"tinyint smallint int bigint {NUMBERS} timestamp timestamp_ntz array<int> array<bigint> array<array<int>>".split()
KNOWN = target_types({text: text for text in TYPES})
HELD = {
    "smallint": "tinyint",
    "int": "tinyint smallint",
    "bigint": "tinyint smallint int",
    "double": "float",
    "decimal(5,1)": "tinyint",
    "decimal(12,2)": "tinyint smallint int decimal(5,1)",
    "decimal(19,0)": "tinyint smallint int bigint",
    "decimal(38,0)": "tinyint smallint int bigint decimal(19,0)",
    "array<bigint>": "array<int>",
}
"""The narrower types by those that hold all of their values."""
HELD_BY_FIELDS = {
    "smallint": "tinyint",
    "int": "tinyint smallint",
    "bigint": "tinyint smallint int",
    "double": "float",
    "decimal(38,0)": "decimal(19,0)",
}
"""The types that a topic's field may have had before."""
WIDEST = {
    ("smallint", "decimal(5,1)"): "decimal(6,1)",
    ("int", "decimal(5,1)"): "decimal(11,1)",
    ("bigint", "decimal(5,1)"): "decimal(20,1)",
    ("bigint", "decimal(12,2)"): "decimal(21,2)",
    ("decimal(5,1)", "decimal(19,0)"): "decimal(20,1)",
    ("decimal(12,2)", "decimal(19,0)"): "decimal(21,2)",
    ("array<int>", "array<array<int>>"): "array<string>",
    ("array<bigint>", "array<array<int>>"): "array<string>",
}
"""The narrowest types that hold the values of two, where neither holds the other's and text is not needed."""


def of_target(text: str) -> str:
    return str(parse_target_type(text))


def of_topic(text: str) -> str:
    return str(parse_ddl(f"x {text}")[0].type)


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_type_of_targets_and_topics(text: str) -> None:
    assert of_target(text) == of_topic(text) == SPELLINGS[text]
    assert of_target(of_target(text)) == of_target(text)


@pytest.mark.parametrize("text", OF_TOPICS)
def test_a_type_of_topics(text: str) -> None:
    assert of_topic(text) == OF_TOPICS[text]


@pytest.mark.parametrize("text", NO_TYPES)
def test_no_type(text: str) -> None:
    for read in (of_target, of_topic):
        with pytest.raises(InvalidArgument):
            read(text)


@pytest.mark.parametrize("text", NOT_OF_TARGETS)
def test_no_type_of_targets(text: str) -> None:
    of_topic(text)
    with pytest.raises(InvalidArgument) as refused:
        of_target(text)
    assert str(refused.value) == (
        "this is no type that a column of a target can have (expected: decimal(p,s), bigint, binary, boolean, date, double, float, int, "
        f"smallint, string, timestamp, timestamp_ntz, tinyint, or array<…> of these; observed: '{text}'). "
        "maps and structs are written as JSON text: string"
    )


def test_stored_types_of_a_table() -> None:
    types = TableTypes("public", "a", target_types({kind: kind for kind in ARROW}))
    said = ",".join(f'"{kind}":"{kind}"' for kind in ARROW)
    assert types.data.decode() == f'{{"format":1,"schema":"public","table":"a","columns":{{{said}}}}}'
    assert types.name == "af4c4b7ae00535e1"
    assert decode_types(types.data, types.name, where="here") == types


@pytest.mark.parametrize("kind", ARROW)
def test_arrow(kind: str) -> None:
    assert str(arrow_type(parse_target_type(kind))) == ARROW[kind]


def test_columns_in_the_log_of_a_target(tmp_path: Path) -> None:
    columns = tuple(target_column(kind, kind) for kind in ARROW)
    target = Target(TableId("s", "t"), "t", columns, ("int",))
    DeltalakeTargets(str(tmp_path), by_position=False).create(target, TargetOwner("changes", 1, "s"))
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    (schema,) = (
        action["metaData"]["schemaString"] for action in map(json.loads, log.read_text().splitlines()) if "metaData" in action
    )
    assert {one["name"]: one["type"] for one in json.loads(schema)["fields"]} == {kind: DELTA.get(kind, kind) for kind in ARROW}


def test_types_that_hold_the_values_of_others() -> None:
    for wide, narrow in permutations(TYPES, 2):
        assert holds(KNOWN[wide], KNOWN[narrow]) == (narrow in HELD.get(wide, "").split()), (wide, narrow)
        assert holds(KNOWN[wide], KNOWN[wide])


def test_types_that_a_field_may_get() -> None:
    for wide, narrow in permutations(TYPES, 2):
        assert holds_stored(KNOWN[wide], KNOWN[narrow]) == (narrow in HELD_BY_FIELDS.get(wide, "").split()), (wide, narrow)


def test_types_for_the_values_of_two() -> None:
    for one, other in permutations(TYPES, 2):
        first, second = KNOWN[one], KNOWN[other]
        both = WIDEST.get((one, other)) or WIDEST.get((other, one))
        wide = both or (one if holds(first, second) else other if holds(second, first) else "string")
        assert str(widest(first, second)) == wide, (one, other)
        are_numbers = both is not None and "array" not in both
        required = one if holds(first, second) else both if are_numbers else other
        assert str(required_type(first, second)) == required, (one, other)
