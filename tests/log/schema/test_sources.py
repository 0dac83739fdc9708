"""Every form in which users have their schemas, as fields; and what each refuses, by path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Required, TypedDict
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given

from penstock.log.errors import InvalidArgument, LimitExceeded
from penstock.log.schema.arrow_types import arrow_fields, fields_of_arrow
from penstock.log.schema.ddl import parse_ddl
from penstock.log.schema.fields import StructType, field_text
from penstock.log.schema.rules import DEPTH_MAX, FIELDS_MAX
from penstock.log.schema.sources import fields_of
from penstock.log.schema.topic_schema import first_schema
from tests.log.schema.strategies import any_fields


def ddl(source: Any) -> str:
    return first_schema(fields_of(source)).ddl


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = 1


@dataclass
class Item:
    sku: str
    count: Annotated[int, "int"] = 1


@dataclass
class Order:
    id: int
    amount: Annotated[Decimal, "decimal(12,2)"]
    at: datetime
    note: str | None
    colour: Colour
    state: Literal["open", "paid"]
    items: list[Item]
    labels: dict[str, str | None]
    day: Optional[date] = None  # noqa: UP045 - as many write it
    ref: UUID | None = None


class OrderRow(TypedDict):
    id: int
    note: NotRequired[str]


class Point(NamedTuple):
    x: float
    raw: bytes


def test_a_dataclass_names_its_fields() -> None:
    assert ddl(Order) == (
        "id bigint not null, amount decimal(12,2) not null, at timestamp not null, note string, colour string not null, "
        "state string not null, items array<struct<sku: string not null, count: int not null>> not null, "
        "labels map<string, string> not null, day date, ref string"
    )


def test_a_typed_dict_may_leave_fields_out() -> None:
    assert ddl(OrderRow) == "id bigint not null, note string"


def test_a_typed_dict_that_is_not_total_needs_no_key_but_those_that_are_required() -> None:
    class Some(TypedDict):
        id: int

    class More(Some, total=False):
        note: str
        at: Required[datetime]

    assert ddl(More) == "id bigint not null, note string, at timestamp not null"


def test_a_model_says_whether_its_times_have_zones() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", at=(pydantic.AwareDatetime, ...), local=(pydantic.NaiveDatetime | None, None))
    assert ddl(model) == "at timestamp not null, local timestamp_ntz"


def test_a_named_tuple_names_its_fields() -> None:
    assert ddl(Point) == "x double not null, raw binary not null"


def test_a_model_names_its_fields_and_digits() -> None:
    # As pydantic 2 has it; the class stands for a model where pydantic is not installed.
    class Model:
        id: int
        amount: Decimal | None

        model_fields: Mapping[str, object] = {
            "id": SimpleNamespace(metadata=()),
            "amount": SimpleNamespace(metadata=(SimpleNamespace(max_digits=12, decimal_places=2),)),
        }

    Model.__annotations__ = {"id": int, "amount": Decimal}
    assert ddl(Model) == "id bigint not null, amount decimal(12,2) not null"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id bigint NOT NULL, amount DECIMAL(12,2), at Timestamp", "id bigint not null, amount decimal(12,2), at timestamp"),
        ("a long, b integer, c numeric(5), d text, e timestamp_ltz", "a bigint, b int, c decimal(5,0), d string, e timestamp"),
        ("a dec, b double precision, c timestamp_ntz", "a decimal(10,0), b double, c timestamp_ntz"),
        ("s struct<x: int, y: array<string> not null>", "s struct<x: int, y: array<string> not null>"),
        ("m map<string, map<int, date>>", "m map<string, map<int, date>>"),
        ("`größe-1` int comment 'it''s'", None),
        ("`größe-1` int comment 'it\\'s'", "`größe-1` int comment 'it\\'s'"),
        ("not_null int, comment string", "not_null int, comment string"),
        ("-- orders, by id\nid bigint, /* a\nprice */ price double --end", "id bigint, price double"),
    ],
)
def test_sql_is_read_and_shown(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(InvalidArgument, match="cannot be read at character"):
            fields_of(text)
    else:
        assert ddl(text) == expected
        assert ddl(expected) == expected


@given(any_fields())
def test_whatever_is_shown_is_read_again(fields: StructType) -> None:
    text = ", ".join(map(field_text, fields.fields))
    assert [field_text(one) for one in parse_ddl(text)] == [field_text(one) for one in fields.fields]


@given(any_fields())
def test_arrow_has_the_same_fields(fields: StructType) -> None:
    schema = pa.schema(arrow_fields(fields.fields))
    again = fields_of_arrow(schema)
    assert pa.schema(arrow_fields(again)).equals(schema)
    assert [field_text(one) for one in again] == [field_text(one) for one in _without_docs(fields).fields]


def _without_docs(fields: StructType) -> StructType:
    return StructType(fields_of_arrow(pa.schema(arrow_fields(fields.fields))))


def test_arrow_types_are_taken_as_the_next_type_that_holds_them() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.uint32()),
            pa.field("b", pa.dictionary(pa.int8(), pa.large_string()), nullable=False),
            pa.field("c", pa.timestamp("ns", "Europe/Berlin")),
            pa.field("d", pa.timestamp("s")),
            pa.field("e", pa.list_(pa.decimal256(38, 2), 3)),
            pa.field("f", pa.map_(pa.string(), pa.struct([pa.field("x", pa.binary(16))]))),
            pa.field("g", pa.int8(), metadata={"comment": "a small one"}),
        ]
    )
    assert ddl(schema) == (
        "a bigint, b string not null, c timestamp, d timestamp_ntz, e array<decimal(38,2)>, f map<string, struct<x: binary>>, "
        "g tinyint comment 'a small one'"
    )


JSON_SCHEMA = {
    "type": "object",
    "required": ["id", "items", "state"],
    "properties": {
        "id": {"type": "integer", "description": "its number"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": ["string", "null"], "format": "date"},
        "price": {"type": "number"},
        "small": {"type": "integer", "format": "int32"},
        "state": {"enum": ["open", "paid"]},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    },
    "$defs": {"item": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
}
AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long", "doc": "its number"},
        {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN"]}},
        {"name": "before", "type": ["null", "shop.State"]},
        {
            "name": "items",
            "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}},
        },
        {"name": "labels", "type": {"type": "map", "values": ["null", "string"]}},
    ],
}


def test_json_schema_is_read() -> None:
    assert ddl(JSON_SCHEMA) == (
        "id bigint not null comment 'its number', at timestamp, day date, price double, small int, state string not null, raw binary, "
        "items array<struct<sku: string not null>> not null, labels map<string, string>, maybe boolean"
    )


def test_avro_is_read() -> None:
    assert ddl(AVRO) == (
        "id bigint not null comment 'its number', amount decimal(12,2), at timestamp not null, local timestamp_ntz not null, "
        "state string not null, before string, items array<struct<n: int not null>> not null, labels map<string, string> not null"
    )


@pytest.mark.parametrize(
    ("name", "content"), [("a.sql", "id bigint"), ("a.json", json.dumps(JSON_SCHEMA)), ("a.avsc", json.dumps(AVRO))]
)
def test_files_are_read_by_what_they_hold(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert ddl(tmp_path / name).startswith("id bigint")


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"type": ')
    with pytest.raises(InvalidArgument, match=r"not JSON.*broken\.json"):
        fields_of(tmp_path / "broken.json")
    with pytest.raises(InvalidArgument, match=r"cannot be read.*none\.sql"):
        fields_of(tmp_path / "none.sql")


class Bad(TypedDict):
    size: Size


class Loop(TypedDict):
    next: "Loop"  # noqa: UP037 - it is not defined yet


class Amount(TypedDict):
    amount: Decimal


REFUSED = [
    ("", "a field's name"),
    ("id", "expected: a type; observed: the end"),
    ("id bigint not", "null, after not"),
    ("id varchar(10)", "varchar without a length"),
    ("order.sql", r"observed: '\.sql'.*a file is given as a Path, or as --schema @FILE"),
    ("./orders/v1", "a file is given as a Path"),
    ('{"type": "object"}', "JSON Schema and Avro are given as a dict, or as a file"),
    (SimpleNamespace(toDDL=str), r"no schema can be made.*schema\.toDDL\(\) is the Spark SQL"),
    ("id interval", "object: 'id'; expected: one of boolean"),
    ("s struct<x: void>", r"object: 's\.x'"),
    ("id bigint; drop table", "observed: '; drop table'"),
    ("a decimal(39,2)", r"no such decimal.*object: a; expected: decimal\(p,s\).*a string holds numbers of more digits"),
    ("a decimal(2,3)", r"observed: decimal\(2,3\)"),
    (
        "a int, A int",
        r"two fields have the same name.*observed: a, A\)\. name one otherwise; Spark and Delta do not tell names apart by case",
    ),
    ("s struct<x: int, x: int>", r"two fields have the same name.*object: s\.x"),
    ("Offset int", r"the name is a message's own.*object: Offset.*name it otherwise, such as order_Offset"),
    ("`ſ` int, s int", "two fields have the same name"),
    ("`İ` int, i int", "two fields have the same name"),
    ("`İ` int, `i\u0307` int", "two fields have the same name"),
    ("`ß` int, `ẞ` int", "two fields have the same name"),
    ("`ος` int, `ΟΣ` int", "two fields have the same name"),
    ("`offſet` int", "the name is a message's own"),
    ("`a\u061c` int", "cannot be a field's name"),
    ("`a\xad` int", "cannot be a field's name"),
    ("`a\u200b` int", "cannot be a field's name"),
    ("`a\ud800` int", "cannot be a field's name"),
    ("a int comment '\ud800'", r"the field's description is no text.*object: a; observed: '\\ud800'"),
    ("`a b` int", r"cannot be a field's name.*object: 'a b'"),
    ("m map<struct<x: int>, int>", r"the keys of a map are plain values.*object: m"),
    ("a " + "array<" * DEPTH_MAX + "int" + ">" * DEPTH_MAX, f"too deep.*at most {DEPTH_MAX} levels.*such as JSON"),
    (
        ", ".join(f"c{number} int" for number in range(2_000)),
        f"too many fields.*at most {FIELDS_MAX}, nested.*observed: 2000.*several topics",
    ),
    (Bad, r"no type of a topic fits this annotation.*object: size"),
    (Loop, "too deep, or refers to itself"),
    (Amount, r"a Decimal needs its digits.*object: amount.*decimal\(12,2\)"),
    (int, "no schema can be made from this.*observed: <class 'int'>"),
    (7, "no schema can be made from this"),
    (pa.schema([("a", pa.struct([("b", pa.time64("us"))]))]), r"a topic has no such type.*object: a\.b.*observed: time64"),
    (pa.schema([("a", pa.uint64())]), r"use decimal\(20,0\)"),
    (pa.schema([]), "a schema has at least one field"),
    ({"type": "object"}, "an object has properties"),
    ({"type": "array", "items": {"type": "string"}}, "not that of an object"),
    ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, r"object: a; expected: a value has one type"),
    ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "the reference leads nowhere"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "a reference leads into the same document"),
    ({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, "too deep, or refers to itself"),
    ({"type": "object", "properties": {"a": {"enum": [1, 2]}}}, "an enum of texts"),
    (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]},
        r"object: a; expected: a union of one type",
    ),
    ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "R"}]}, "too deep, or refers to itself"),
    (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "int", "logicalType": "time-millis"}}]},
        r"object: a; expected: a logical type among decimal.*observed: 'time-millis'",
    ),
    (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "int", "logicalType": ["x"]}}]},
        r"observed: \['x'\]",
    ),
    ({"type": "record", "name": "R", "fields": "none"}, "a record has a list of fields"),
]


EIGHT = [f"f{number}" for number in range(8)]
LEVELS = [f"T{level}" for level in range(6)]


def wide_json() -> dict[str, Any]:
    """An object whose eight fields have one type, whose eight fields have the next one, and so on."""

    def object_of(inner: object) -> dict[str, Any]:
        return {"type": "object", "properties": dict.fromkeys(EIGHT, inner)}

    inner = [*({"$ref": f"#/$defs/{name}"} for name in LEVELS[1:]), {"type": "string"}]
    return {**object_of({"$ref": "#/$defs/T0"}), "$defs": dict(zip(LEVELS, map(object_of, inner), strict=True))}


def wide_avro() -> dict[str, Any]:
    """The same of records, each of which is defined in the first field and named in the others."""
    record: dict[str, Any] = {"type": "string", "name": "string"}
    for name in LEVELS:
        first, *others = EIGHT
        fields = [{"name": first, "type": record}, *({"name": other, "type": record["name"]} for other in others)]
        record = {"type": "record", "name": name, "fields": fields}
    return record


def wide_class() -> type:
    """The same of dataclasses."""
    made: type = str
    for name in LEVELS:
        made = make_dataclass(name, [(field, made) for field in EIGHT])
    return made


@pytest.mark.parametrize("source", [wide_json(), wide_avro(), wide_class()], ids=["JSON Schema", "Avro", "classes"])
def test_types_that_name_each_other_again_and_again_are_refused_at_once(source: Any) -> None:
    with pytest.raises(LimitExceeded, match=f"too many fields.*at most {FIELDS_MAX}"):
        fields_of(source)


@pytest.mark.parametrize(("source", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_no_topic_can_have_is_refused_by_path(source: Any, said: str) -> None:
    with pytest.raises((InvalidArgument, LimitExceeded), match=f"(?s){said}"):
        fields_of(source)
