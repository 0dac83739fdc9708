"""What a schema may become, and that the judge by numbers alone agrees."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.errors import InvalidArgument, LimitExceeded
from penstock.log.format.schema_form import FieldForm, SchemaForm, schema_form, schema_of
from penstock.log.schema.ddl import parse_ddl
from penstock.log.schema.evolution import changes, difference, evolve, live, refusal
from penstock.log.schema.fields import (
    ArrayType,
    DecimalType,
    Field,
    FieldType,
    MapType,
    PrimitiveType,
    StructType,
    parts_of,
    walk,
    with_parts,
)
from penstock.log.schema.rules import DEPTH_MAX, FIELDS_MAX, FORMER_NAMES_MAX
from penstock.log.schema.sources import fields_of
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from tests.log.schema.strategies import any_fields, drawn_step

REST = "id int not null, at timestamp not null, items array<struct<sku: string, n: smallint>>, m map<string, float>"
ORDERS = first_schema(
    fields_of(
        "id int not null, amount decimal(10,2), at timestamp not null, items array<struct<sku: string, n: smallint>>, m map<string, float>"
    )
)


def evolved(
    text: str, before: TopicSchema = ORDERS, rename: dict[str, str] | None = None, retire: tuple[str, ...] = ()
) -> TopicSchema:
    after = evolve(before, fields_of(text), rename=rename, retire=retire)
    assert refusal(before, after) is None
    return after


def test_what_is_allowed_is_made_and_told() -> None:
    after = evolved(
        "id bigint, total decimal(12,2), items array<struct<sku: string, n: int, price: double>>, m map<string, double>, note string",
        rename={"amount": "total"},
        retire=("at",),
    )
    assert after.version == 2
    assert after.ddl == (
        "id bigint, total decimal(12,2), items array<struct<sku: string, n: int, price: double>>, m map<string, double>, note string"
    )
    assert list(map(str, changes(ORDERS, after))) == [
        "relaxed id: may be NULL now",
        "widened id: int to bigint",
        "renamed amount: now total",
        "widened amount: decimal(10,2) to decimal(12,2)",
        "retired at",
        "widened items.element.n: smallint to int",
        "added items.element.price: double",
        "widened m.value: float to double",
        "added note: string",
    ]


def test_numbers_and_stored_names_never_change() -> None:
    after = evolved(
        REST + ", cents decimal(10,2), amount bigint",
        rename={"amount": "cents"},
    )
    stored = {path: (field.id, field.stored_name) for path, field in walk(after.fields)}
    assert stored["cents"] == (2, "amount")
    assert stored["amount"] == (ORDERS.last_id + 1, f"amount__{ORDERS.last_id + 1}")


def test_a_name_may_be_used_again_after_its_field_retired() -> None:
    without = evolved(REST, retire=("amount",))
    again = evolved(f"{REST}, amount string", without)
    assert dict(live(again))["amount"].type is PrimitiveType.STRING
    assert [field.name for field in again.fields].count("amount") == 2


@pytest.mark.parametrize(
    ("first", "then", "stored"),
    [
        ("k int, a int", "k int, A int", ["k", "a", "A__3"]),
        ("k int, a int", "k int, a int, a__3 int", ["k", "a", "a__3", "a__3__4"]),
        ("k int, a int, a__4 int", "k int, a int", ["k", "a", "a__4", "a__4__4"]),
    ],
)
def test_a_stored_name_is_never_used_again(first: str, then: str, stored: list[str]) -> None:
    before = first_schema(fields_of(first))
    gone = evolved("k int", before, retire=tuple(field.name for field in before.fields[1:]))
    assert [field.stored_name for field in evolved(then, gone).fields] == stored


def test_a_description_may_change_and_stays_when_none_is_given() -> None:
    before = first_schema(fields_of("a int comment 'x'"))
    assert evolved("a int comment 'y'", before).fields[0].doc == "y"
    assert evolved("a bigint", before).fields[0].doc == "x"


def test_a_field_cannot_retire_where_the_new_schema_still_has_it() -> None:
    before = first_schema(fields_of("a int, b struct<x: string, y: int>, c int"))
    for path in ("a", "b.x"):
        with pytest.raises(InvalidArgument, match="still has the field that is to retire") as refused:
            evolve(before, fields_of("a int, b struct<x: string, y: int>, c int"), retire=[path])
        assert refused.value.object == path
    renamed = evolved("b struct<x: string, y: int>, c int", before, rename={"a": "c"}, retire=("c",))
    assert [(field.name, field.id, field.retired) for field in renamed.fields] == [("c", 1, 0), ("b", 2, 0), ("c", 5, 2)]
    again = evolved("a string, b struct<x: string, y: int>, c int", before, retire=("a",))
    assert [field.name for field in again.live] == ["b", "c", "a"]


def test_nothing_to_change_makes_no_version() -> None:
    assert evolve(ORDERS, fields_of(ORDERS.ddl)) is ORDERS


def test_the_last_field_cannot_retire() -> None:
    with pytest.raises(InvalidArgument, match="at least one field"):
        evolve(first_schema(fields_of("a int")), (), retire=["a"])


def test_fields_that_are_wanted_are_those_in_use_and_each_once() -> None:
    gone = evolved(REST, retire=("amount",))
    assert evolve(gone, gone.fields) is gone
    with pytest.raises(InvalidArgument, match="two fields have the same name"):
        evolve(gone, (*gone.live, Field("x", PrimitiveType.INT), Field("x", PrimitiveType.STRING)))


def test_a_judgement_is_the_same_in_every_version_of_python() -> None:
    later = "\U00010d50"  # a letter since Unicode 16, which Python 3.11 does not know
    assert refusal(None, first_schema((Field(later, PrimitiveType.INT), Field("\U00010d70", PrimitiveType.INT)))) is None
    assert refusal(None, first_schema((Field("\u1c90", PrimitiveType.INT), Field("\u10d0", PrimitiveType.INT)))) is None


def test_names_can_be_swapped() -> None:
    before = first_schema(fields_of("a int, b string"))
    after = evolved("b int, a string", before, rename={"a": "b", "b": "a"})
    assert [(field.name, field.stored_name) for field in after.fields] == [("b", "a"), ("a", "b")]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            "id bigint not null",
            r"the field is missing in the new schema.*object: amount.*retire it \(retire=\['amount'\]\), or rename it",
        ),
        (
            "{rest}, amount decimal(12,3)",
            r"type cannot change.*object: amount; expected: decimal\(10,2\), or more digits.*decimal\(p,2\)",
        ),
        ("{rest}, amount decimal(8,2)", r"type cannot change.*observed: decimal\(8,2\)"),
        ("{rest}, amount double", "add a field of the other type, and retire this one"),
        ("{rest}, amount decimal(10,2) not null", "a nullable field cannot become NOT NULL"),
        (
            "{rest}, amount decimal(10,2), note string not null",
            "a new field must be nullable.*expected: note string; observed: note string not null",
        ),
        ("{rest}, AMOUNT decimal(10,2)", "missing in the new schema.*observed: AMOUNT"),
        ("{rest}, amount struct<x: int>", r"observed: struct<x: int>"),
    ],
)
def test_all_else_is_refused_with_the_reason(wanted: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"(?s){said}"):
        evolve(ORDERS, fields_of(wanted.format(rest=REST)))


@pytest.mark.parametrize(
    ("rename", "retire", "said"),
    [
        ({"none": "x"}, (), "the schema has no such field.*object: none; expected: id, amount"),
        ({}, ("items.element.none",), r"the schema has no such field.*object: items\.element\.none"),
        ({}, ("items.element",), "only fields of structs can be renamed or retired"),
        (
            {"amount": "price"},
            (),
            r"the field is missing in the new schema.*object: amount; expected: price .*name it price in the new schema",
        ),
        ({"m.value": "x"}, (), "only fields of structs can be renamed or retired"),
    ],
)
def test_a_change_of_no_field_is_refused(rename: dict[str, str], retire: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        evolve(ORDERS, fields_of(ORDERS.ddl), rename=rename, retire=retire)


def test_retired_fields_count_until_the_schema_is_full() -> None:
    schema = first_schema(fields_of("k int, " + ", ".join(f"c{number} int" for number in range(FIELDS_MAX - 1))))
    gone = evolve(schema, fields_of("k int"), retire=[f"c{number}" for number in range(FIELDS_MAX - 1)])
    with pytest.raises(LimitExceeded, match=f"too many fields.*at most {FIELDS_MAX}"):
        evolve(gone, fields_of("k int, more int"))


# --- The judge ------------------------------------------------------------------------------------------------------------------------


def with_field(schema: TopicSchema, number: int, **new: object) -> TopicSchema:
    """The next version, with one field made otherwise."""
    fields = list(schema.fields)
    fields[number] = replace(fields[number], **new)  # type: ignore[arg-type]
    return replace(schema, version=schema.version + 1, fields=tuple(fields))


def retired_value(field: Field) -> MapType:
    assert isinstance(field.type, MapType)
    return replace(field.type, value=replace(field.type.value, retired=2))


def renamed_value(field: Field) -> MapType:
    assert isinstance(field.type, MapType)
    return replace(field.type, value=replace(field.type.value, name="other"))


def stored_elsewhere(field: Field) -> MapType:
    assert isinstance(field.type, MapType)
    return replace(field.type, value=replace(field.type.value, stored_name="other"))


EXTRA = Field("extra", PrimitiveType.INT, id=ORDERS.last_id + 1, stored_name="extra")
NEXT = replace(ORDERS, version=2, last_id=ORDERS.last_id + 1)
RETIRED = with_field(ORDERS, 1, retired=2)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (ORDERS, replace(ORDERS, version=3), "version 3 does not follow version 1"),
        (None, NEXT, "version 2 does not follow no schema"),
        (None, replace(with_field(ORDERS, 1, retired=1), version=1), "has a past"),
        (None, replace(with_field(ORDERS, 1, former_names=("sum",)), version=1), "amount has a past"),
        (ORDERS, replace(NEXT, fields=()), "at least one field"),
        (
            ORDERS,
            replace(NEXT, fields=(replace(EXTRA, id=1), *ORDERS.fields[1:]), last_id=ORDERS.last_id),
            "is stored under another",
        ),
        (ORDERS, replace(NEXT, fields=(replace(EXTRA, type=StructType((ORDERS.fields[0],))), *ORDERS.fields[1:])), "id is gone"),
        (ORDERS, replace(NEXT, fields=ORDERS.fields[1:]), "one each, from 1 to the last"),
        (ORDERS, replace(ORDERS, version=2, last_id=2**63 - 1), "one each, from 1 to the last"),
        (ORDERS, replace(ORDERS, version=2, fields=tuple(replace(one, retired=2) for one in ORDERS.fields)), "at least one field"),
        (None, first_schema((Field("l", ArrayType(Field("item", PrimitiveType.INT))),)), "the parts of l are not element"),
        (
            None,
            first_schema((Field("l", ArrayType(Field("element", PrimitiveType.INT, retired=1))),)),
            "the parts of l are not element",
        ),
        (ORDERS, with_field(ORDERS, 4, type=retired_value(ORDERS.fields[4])), "the parts of m are not key and value"),
        (ORDERS, with_field(ORDERS, 4, type=renamed_value(ORDERS.fields[4])), "the parts of m are not key and value"),
        (ORDERS, with_field(ORDERS, 4, type=stored_elsewhere(ORDERS.fields[4])), "the parts of m are not key and value"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, id=ORDERS.last_id + 9))), "one each, from 1 to the last"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, id=1))), "one each, from 1 to the last"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, id=0))), "one each, from 1 to the last"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, nullable=False))), "extra is no new nullable field"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, retired=2))), "extra is no new nullable field"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, former_names=("sum",)))), "extra is no new nullable field"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, stored_name="ID"))), "not stored under one name each"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, stored_name=""))), "not stored under one name each"),
        (ORDERS, replace(NEXT, fields=(*ORDERS.fields, replace(EXTRA, stored_name="a.b"))), "not stored under one name each"),
        (ORDERS, with_field(ORDERS, 0, type=PrimitiveType.STRING), "id changes from int to string"),
        (ORDERS, with_field(ORDERS, 0, type=PrimitiveType.SMALLINT), "id changes from int to smallint"),
        (ORDERS, with_field(ORDERS, 0, stored_name="other"), "id is stored under another name"),
        (ORDERS, with_field(ORDERS, 1, name="sum"), "amount does not have its former names"),
        (ORDERS, with_field(ORDERS, 1, former_names=("sum",)), "amount does not have its former names"),
        (ORDERS, with_field(ORDERS, 1, name="sum", former_names=("id",)), "amount does not have its former names"),
        (ORDERS, with_field(ORDERS, 1, nullable=False), "amount becomes NOT NULL"),
        (ORDERS, with_field(ORDERS, 1, type=DecimalType(12, 3)), r"amount changes from decimal\(10,2\) to decimal\(12,3\)"),
        (ORDERS, with_field(ORDERS, 1, retired=1), "amount is retired, and changed or by another version"),
        (ORDERS, with_field(ORDERS, 1, retired=2, type=DecimalType(12, 2)), "amount is retired, and changed"),
        (RETIRED, replace(with_field(RETIRED, 1, retired=3), version=3), "amount is retired, and changed or by another version"),
        (RETIRED, replace(with_field(RETIRED, 1, retired=0), version=3), "amount was retired, and is used again"),
    ],
)
def test_the_judge_refuses(before: TopicSchema | None, after: TopicSchema, said: str) -> None:
    assert re.search(said, refusal(before, after) or "accepted")


NESTED = first_schema(fields_of("s struct<x: int, y: int>, l array<int>, k array<int>"))


def with_parts_of(number: int, *parts: Field) -> TopicSchema:
    return with_field(NESTED, number, type=with_parts(NESTED.fields[number].type, parts))


def added(type_: FieldType) -> TopicSchema:
    """The next version, with a new field of a type whose parts have the next numbers but one."""
    ids = NESTED.last_id + 1
    parts = tuple(replace(part, id=ids + 1 + number, stored_name=part.name) for number, part in enumerate(parts_of(type_)))
    new = Field("new", with_parts(type_, parts), id=ids, stored_name="new")
    return replace(NESTED, version=2, fields=(*NESTED.fields, new), last_id=ids + len(parts))


X, Y = parts_of(NESTED.fields[0].type)
(OF_L,), (OF_K,) = parts_of(NESTED.fields[1].type), parts_of(NESTED.fields[2].type)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (with_parts_of(0, X), "one each, from 1 to the last"),
        (with_parts_of(0, X, replace(Y, type=PrimitiveType.STRING)), "s.y changes from int to string"),
        (with_parts_of(0, X, replace(Y, stored_name="X")), "the fields of s are not stored under one name each"),
        (with_parts_of(0, replace(X, retired=2), replace(Y, retired=2)), "a struct has at least one field"),
        (with_parts_of(1, replace(OF_L, type=PrimitiveType.STRING)), "l.element changes from int to string"),
        (
            replace(
                with_parts_of(1, OF_K),
                fields=(NESTED.fields[0], with_parts_of(1, OF_K).fields[1], with_parts_of(2, OF_L).fields[2]),
            ),
            "l.element is another field",
        ),
        (
            added(StructType((Field("a", PrimitiveType.INT), Field("b", PrimitiveType.INT, retired=2)))),
            "new has parts that are not new",
        ),
        (added(StructType((Field("a", PrimitiveType.INT, former_names=("b",)),))), "new has parts that are not new"),
        (added(MapType(Field("key", PrimitiveType.INT), Field("value", PrimitiveType.INT))), "the keys of a map are plain values"),
        (added(DecimalType(0, 0)), "no such decimal"),
        (added(DecimalType(5, -1)), "no such decimal"),
    ],
)
def test_the_judge_looks_at_parts_too(after: TopicSchema, said: str) -> None:
    assert re.search(said, refusal(NESTED, after) or "accepted")


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (Field("a" * 255, PrimitiveType.INT), Field("ä" * 128, PrimitiveType.INT)),
        (Field("a", PrimitiveType.INT, doc="ä" * 1_000), Field("a", PrimitiveType.INT, doc="a" * 1_001)),
    ],
)
def test_the_judge_knows_limits(good: Field, bad: Field) -> None:
    assert refusal(None, first_schema((good,))) is None
    assert "is too long" in (refusal(None, first_schema((bad,))) or "accepted")


def test_a_name_that_two_fields_have_had_means_none_of_them() -> None:
    schema = first_schema(fields_of("a int, b int"))
    for ddl, retire in (("a int", ["b"]), ("a int, b string", []), ("a int", ["b"])):
        schema = evolve(schema, fields_of(ddl), retire=retire)
    assert StructType(schema.fields[:2]).by_sent_name.keys() == {"a", "b"}
    assert StructType(schema.fields).by_sent_name.keys() == {"a"}


def test_a_field_can_be_renamed_a_bounded_number_of_times() -> None:
    schema = first_schema(fields_of("a0 int"))
    for number in range(FORMER_NAMES_MAX):
        schema = evolve(schema, fields_of(f"a{number + 1} int"), rename={f"a{number}": f"a{number + 1}"})
    with pytest.raises(LimitExceeded, match=f"renamed too often.*object: z; expected: at most {FORMER_NAMES_MAX} times"):
        evolve(schema, fields_of("z int"), rename={f"a{FORMER_NAMES_MAX}": "z"})


def test_the_judge_knows_the_greatest_depth() -> None:
    field = Field("a", PrimitiveType.INT)
    for _ in range(DEPTH_MAX - 1):
        field = Field("a", StructType((field,)))
    assert refusal(None, first_schema((field,))) is None
    assert "too deep" in (refusal(None, first_schema((Field("a", StructType((field,))),))) or "accepted")


@given(any_fields(), st.data())
def test_whatever_evolves_is_judged_good_and_keeps_every_field(fields: StructType, data: st.DataObject) -> None:
    schema = first_schema(fields.fields)
    assert refusal(None, schema) is None
    for _ in range(data.draw(st.integers(1, 4))):
        before = schema
        rename: dict[str, str] = {}
        retire: list[str] = []
        wanted = drawn_step(before.fields, data, rename, retire, "")
        if not wanted:
            continue
        schema = evolve(before, wanted, rename=rename, retire=retire)
        if schema is before:
            continue
        assert refusal(before, schema) is None
        assert [field.name for field in schema.live][: len(wanted)] == [field.name for field in schema.live]
        old = {field.id: field.stored_name for _, field in walk(before.fields)}
        new = {field.id: field.stored_name for _, field in walk(schema.fields)}
        assert old.items() <= new.items()
        told = changes(before, schema)
        assert len([one for one in told if one.kind == "renamed"]) == len(rename)
        assert len([one for one in told if one.kind == "retired"]) == len(retire)


@given(any_fields())
def test_a_schema_is_stored_and_read_again(fields: StructType) -> None:
    schema = first_schema(fields.fields)
    stored = msgspec.json.encode(schema_form(schema))
    assert schema_of(msgspec.json.decode(stored, type=SchemaForm)) == schema


@pytest.mark.parametrize(
    "form",
    [
        FieldForm(1, "a", "void"),
        FieldForm(1, "a", "decimal(1)"),
        FieldForm(1, "a", "decimal(01,0)"),
        FieldForm(1, "a", "array"),
        FieldForm(1, "a", "map", of=(FieldForm(2, "key", "int"),)),
        FieldForm(1, "a", "int", of=(FieldForm(2, "x", "int"),)),
    ],
)
def test_a_stored_type_that_does_not_exist_is_an_error(form: FieldForm) -> None:
    with pytest.raises(ValueError, match=r"no type|parts"):
        schema_of(SchemaForm(1, 9, (form,)))


def test_a_stored_schema_that_is_too_deep_is_an_error() -> None:
    form = FieldForm(1, "a", "int")
    for _ in range(DEPTH_MAX):
        form = FieldForm(1, "a", "array", of=(form,))
    with pytest.raises(ValueError, match="levels"):
        schema_of(SchemaForm(1, 9, (form,)))


def test_the_difference_is_shown_by_path() -> None:
    found = parse_ddl("id int not null, items array<struct<sku: int>>, extra string")
    assert difference(ORDERS.fields, found) == (
        "amount is missing; at is missing; items.element.n is missing; m is missing; m.key is missing; m.value is missing; "
        "extra is not in the topic's schema; items.element.sku: string there, int here"
    )
    assert not difference(ORDERS.fields, fields_of(ORDERS.ddl))
