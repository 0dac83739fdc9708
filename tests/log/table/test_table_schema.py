"""What a table says of itself, for each version of a topic's schema: pure, and as others take it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import deltalake
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.schema.ddl import parse_ddl
from penstock.log.schema.evolution import evolve, live
from penstock.log.schema.fields import StructType, walk
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from penstock.log.table.delta.actions import metadata, parse_action, protocol
from penstock.log.table.delta.checkpoint import decode_delta_checkpoint, encode_delta_checkpoint
from penstock.log.table.delta.snapshot import Snapshot, apply
from penstock.log.table.delta.table_metadata import Action, Protocol, TableMetadata, check_protocol, fields_of
from penstock.log.table.delta.table_schema import UNTYPED, table_form, table_update
from tests.log.schema.strategies import any_fields, drawn_step
from tests.thorough import examples

ID, PHYSICAL_NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
MAPPED_PROTOCOL = Protocol(3, 7, ("columnMapping",), ("appendOnly", "columnMapping", "invariants"))


def schema_of(ddl: str) -> TopicSchema:
    return first_schema(parse_ddl(ddl))


def created(schema: TopicSchema | None) -> tuple[TableMetadata, Protocol]:
    form = table_form(schema)
    return taken((protocol(form), metadata("id", 1, form)))


def taken(actions: tuple[Action, ...], found: tuple[TableMetadata, Protocol] | None = None) -> tuple[TableMetadata, Protocol]:
    """What the table says after these actions."""
    snapshot = Snapshot("table") if found is None else Snapshot("table", metadata=found[0], protocol=found[1])
    logged = [one for action in actions for one in parse_action(json.loads(json.dumps(action)), where="here")]
    after = apply(snapshot, [(0, logged)])
    assert after.metadata is not None
    assert after.protocol is not None
    return after.metadata, after.protocol


def updated(found: tuple[TableMetadata, Protocol], schema: TopicSchema | None) -> tuple[TableMetadata, Protocol]:
    return taken(table_update(*found, table_form(schema)), found)


def columns(found: TableMetadata) -> dict[str, Any]:
    return {column["name"]: column for column in json.loads(found.schema_string)["fields"]}


def struct_fields(type_: Any) -> list[dict[str, Any]]:
    """The fields of all structs in a type as Delta writes it."""
    if not isinstance(type_, dict):
        return []
    if type_["type"] == "struct":
        return [one for field in type_["fields"] for one in (field, *struct_fields(field["type"]))]
    return [one for part in ("elementType", "keyType", "valueType") for one in struct_fields(type_.get(part))]


def nullable(type_: pa.DataType) -> pa.DataType:
    """The same type with nothing in it that is NOT NULL, except the keys of maps, and with lists by their contents alone."""
    if pa.types.is_struct(type_):
        return pa.struct([(type_.field(n).name, nullable(type_.field(n).type)) for n in range(type_.num_fields)])
    if pa.types.is_list(type_):
        return pa.list_(nullable(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(nullable(type_.key_type), nullable(type_.item_type))
    return type_


def test_a_table_without_schema_has_the_columns_of_messages() -> None:
    found, of_readers = created(None)
    assert of_readers == Protocol(1, 2)
    assert found.configuration == {}
    assert list(columns(found)) == MESSAGE_SCHEMA.names
    assert columns(found)["keys"]["type"] == {"type": "array", "elementType": "string", "containsNull": True}
    assert columns(found)["properties"]["type"] == {
        "type": "map",
        "keyType": "string",
        "valueType": "string",
        "valueContainsNull": True,
    }
    assert columns(found)["store_timestamp"]["type"] == "timestamp"
    assert columns(found)["key"]["type"] == "binary"
    header = [("key", "string"), ("value", "binary")]
    assert [(field["name"], field["type"]) for field in columns(found)["headers"]["type"]["elementType"]["fields"]] == header
    assert (protocol(), metadata("id", 1)) == (protocol(UNTYPED), metadata("id", 1, UNTYPED))


def test_fields_are_nullable_and_described() -> None:
    found, of_readers = created(schema_of("id bigint not null comment 'it\\'s', n tinyint, s struct<d: decimal(9,2) not null>"))
    assert of_readers == Protocol(1, 2)
    assert found.configuration == {"penstock.schemaVersion": "1"}
    assert columns(found)["value"]["type"]["fields"] == [
        {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "it's"}},
        {"name": "n", "type": "byte", "nullable": True, "metadata": {}},
        {
            "name": "s",
            "type": {
                "type": "struct",
                "fields": [{"name": "d", "type": "decimal(9,2)", "nullable": True, "metadata": {}}],
            },
            "nullable": True,
            "metadata": {},
        },
    ]


@pytest.mark.parametrize("ddl", ["t timestamp_ntz", "s struct<t: timestamp_ntz>", "m map<string, array<timestamp_ntz>>"])
def test_a_time_without_zone_is_a_feature_of_the_table(ddl: str) -> None:
    form = table_form(schema_of(f"a int, {ddl}"))
    assert form.protocol == Protocol(3, 7, ("timestampNtz",), ("appendOnly", "invariants", "timestampNtz"))
    mapped = table_form(evolve(schema_of(f"a int, {ddl}"), parse_ddl(f"b int, {ddl}"), rename={"a": "b"}))
    assert mapped.protocol.reader_features == ("columnMapping", "timestampNtz")
    assert mapped.protocol.writer_features == ("appendOnly", "columnMapping", "invariants", "timestampNtz")
    name = ddl.partition(" ")[0]
    retired = evolve(schema_of(f"a int, {ddl}"), parse_ddl("a int"), retire=[name])
    assert table_form(retired).protocol == Protocol(1, 2)
    assert table_update(*created(schema_of(f"a int, {ddl}")), table_form(retired))[0].keys() == {"metaData"}, "not lowered"


def test_a_rename_maps_names_to_columns() -> None:
    before = schema_of("a int, items array<struct<x: int>>, m map<string, struct<y: int>>")
    renamed = {"a": "b", "items.element.x": "xx", "m.value.y": "yy"}
    after = evolve(before, parse_ddl("b int, items array<struct<xx: int>>, m map<string, struct<yy: int>>"), rename=renamed)
    actions = table_update(*created(before), table_form(after))
    assert [*actions[0], *actions[1]] == ["protocol", "metaData"]
    found, of_readers = taken(actions)
    assert of_readers == MAPPED_PROTOCOL
    last_id = str(1000 + after.last_id)
    assert found.configuration == {
        "penstock.schemaVersion": "2",
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": last_id,
    }
    stored = {
        one["name"]: (one["metadata"][PHYSICAL_NAME], one["metadata"][ID]) for one in struct_fields(columns(found)["value"]["type"])
    }
    numbers = {field.name: 1000 + field.id for _, field in walk(after.fields)}
    assert stored == {
        "b": ("a", numbers["b"]),
        "items": ("items", numbers["items"]),
        "xx": ("x", numbers["xx"]),
        "m": ("m", numbers["m"]),
        "yy": ("y", numbers["yy"]),
    }
    of_messages = [column for name, column in columns(found).items() if name != "value"]
    assert [column["metadata"][ID] for column in of_messages] == list(range(1, len(of_messages) + 1))
    assert all(column["metadata"][PHYSICAL_NAME] == column["name"] for column in of_messages)
    assert table_update(found, of_readers, table_form(after)) == ()


def test_mapping_stays_when_names_are_again_those_of_the_files() -> None:
    first = schema_of("a int, b int")
    second = evolve(first, parse_ddl("x int, b int"), rename={"a": "x"})
    third = evolve(second, parse_ddl("a int, b int"), rename={"x": "a"})
    assert not table_form(third).mapped
    found = updated(created(second), third)
    assert found[1] == MAPPED_PROTOCOL
    assert found[0].configuration["delta.columnMapping.mode"] == "name"
    assert [one["metadata"][PHYSICAL_NAME] for one in columns(found[0])["value"]["type"]["fields"]] == ["a", "b"]
    assert table_update(*found, table_form(third)) == ()


def test_a_name_that_is_used_again_is_another_column() -> None:
    first = schema_of("a int, b string")
    second = evolve(first, parse_ddl("a int"), retire=["b"])
    third = evolve(second, parse_ddl("a int, b bigint"))
    assert table_form(second).protocol == Protocol(1, 2)
    found, of_readers = updated(created(second), third)
    assert of_readers == MAPPED_PROTOCOL
    stored = [one["metadata"][PHYSICAL_NAME] for one in columns(found)["value"]["type"]["fields"]]
    assert stored == [field.stored_name for field in third.live] == ["a", "b__3"]


def test_a_publisher_with_an_older_schema_leaves_the_table_as_it_is() -> None:
    first = schema_of("a int")
    second = evolve(first, parse_ddl("a bigint, t timestamp_ntz"))
    assert table_update(*created(second), table_form(first)) == ()
    assert table_update(*created(second), UNTYPED) == ()


def test_a_table_of_before_gets_what_all_tables_have() -> None:
    found, of_readers = created(None)
    older = {"type": "struct", "fields": [column for name, column in columns(found).items() if name not in {"key", "headers"}]}
    before = (msgspec.structs.replace(found, schema_string=json.dumps(older)), of_readers)
    assert updated(before, None) == (found, of_readers)
    typed = schema_of("a int")
    assert updated(before, typed)[0].schema_string == table_form(typed).schema_string


def test_what_others_have_set_stays() -> None:
    first = schema_of("a int")
    second = evolve(first, parse_ddl("b int"), rename={"a": "b"})
    found, of_readers = created(first)
    theirs = json.loads(found.schema_string)
    theirs["fields"][0]["metadata"]["comment"] = "the queue"
    described = msgspec.structs.replace(
        found,
        schema_string=json.dumps(theirs, indent=1),
        name="orders",
        description="all of them",
        configuration={**found.configuration, "delta.logRetentionDuration": "interval 60 days"},
    )
    assert table_update(described, of_readers, table_form(first)) == ()
    after, _ = updated((described, of_readers), second)
    assert (after.id, after.name, after.description, after.created_time) == ("id", "orders", "all of them", 1)
    assert after.partition_columns == ("queue",)
    assert after.configuration["delta.logRetentionDuration"] == "interval 60 days"
    assert columns(after)["queue"]["metadata"] == {"comment": "the queue", ID: 1, PHYSICAL_NAME: "queue"}


def test_mapping_that_others_switched_on_is_named_as_a_feature() -> None:
    """By (2, 5), the datasets of delta-rs find NULL in what was renamed."""
    first = schema_of("a int")
    found, _ = created(first)
    mapped = msgspec.structs.replace(found, configuration={**found.configuration, "delta.columnMapping.mode": "name"})
    after, of_readers = updated((mapped, Protocol(2, 5)), first)
    assert of_readers == MAPPED_PROTOCOL
    assert after.configuration["delta.columnMapping.maxColumnId"] == str(1000 + first.last_id)
    assert table_update(after, of_readers, table_form(first)) == ()


@pytest.mark.parametrize("text", ["", "{", "7", "[]", "{}", '{"fields": 7}', '{"fields": [7]}', "[" * 100_000])
def test_a_schema_that_cannot_be_read_is_named(text: str) -> None:
    found, of_readers = created(None)
    with pytest.raises(DataDamaged, match="no schema that can be read"):
        table_update(msgspec.structs.replace(found, schema_string=text), of_readers, UNTYPED)


@pytest.mark.parametrize(
    "known",
    [
        Protocol(1, 2),
        Protocol(2, 5),
        Protocol(3, 7, (), ()),
        Protocol(3, 7, ("timestampNtz",), ("timestampNtz",)),
        MAPPED_PROTOCOL,
    ],
)
def test_a_known_protocol_survives_a_checkpoint(known: Protocol) -> None:
    check_protocol(known, where="it")
    found, _ = created(None)
    snapshot = apply(Snapshot("table"), [(3, taken_lines(known, found))])
    again = decode_delta_checkpoint(encode_delta_checkpoint(snapshot)[0], folder="table", version=3, where="it")
    assert (again.protocol, again.metadata) == (known, found)


def taken_lines(known: Protocol, found: TableMetadata) -> list[Any]:
    lines: list[Action] = [{"protocol": fields_of(known)}, {"metaData": fields_of(found)}]
    return [one for line in lines for one in parse_action(line, where="it")]


@pytest.mark.parametrize(
    "unknown",
    [
        Protocol(1, 1),
        Protocol(1, 3),
        Protocol(2, 6),
        Protocol(3, 7),
        Protocol(3, 7, None, ("appendOnly",)),
        Protocol(3, 7, ("columnMapping",), None),
        Protocol(3, 8, (), ()),
        Protocol(4, 7, (), ()),
        Protocol(1, 2, (), None),
        Protocol(2, 5, None, ("columnMapping",)),
        Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)),
        Protocol(3, 7, (), ("rowTracking",)),
    ],
)
def test_an_unknown_protocol_is_refused_by_name(unknown: Protocol) -> None:
    with pytest.raises(NewerFormatError) as caught:
        parse_all({"protocol": fields_of(unknown)})
    assert str(unknown.min_writer_version) in str(caught.value)
    assert all(feature in str(caught.value) for feature in unknown.reader_features or ())


def parse_all(action: Action) -> None:
    list(parse_action(action, where="it"))


@settings(max_examples=examples(50))
@given(any_fields(), st.data())
def test_through_any_evolution_all_readers_see_the_schema(fields: StructType, data: st.DataObject) -> None:
    schema = first_schema(fields.fields)
    found = created(schema)
    physical: dict[int, str] = {}
    for _ in range(data.draw(st.integers(0, 3))):
        rename: dict[str, str] = {}
        retire: list[str] = []
        wanted = drawn_step(schema.fields, data, rename, retire, "")
        if not wanted:
            continue
        schema = evolve(schema, wanted, rename=rename, retire=retire)
        before = found
        found = updated(found, schema)
        assert table_update(*found, table_form(schema)) == ()
        assert found[1].min_reader_version >= before[1].min_reader_version
        assert set(found[1].reader_features or ()) >= set(before[1].reader_features or ())
        check_protocol(found[1], where="it")
        ids = [one["metadata"].get(ID) for column in columns(found[0]).values() for one in (column, *struct_fields(column["type"]))]
        if "delta.columnMapping.mode" in found[0].configuration:
            assert len(set(ids)) == len(ids)
            assert max(ids) <= int(found[0].configuration["delta.columnMapping.maxColumnId"] or 0)
            named = {
                one["metadata"][ID]: one["metadata"][PHYSICAL_NAME] for one in struct_fields(columns(found[0])["value"]["type"])
            }
            assert all(physical.setdefault(number, name) == name for number, name in named.items())
        else:
            assert set(ids) == {None}
            assert all(field.name == field.stored_name for _, field in live(schema))
    value = pa.schema(deltalake.Schema.from_json(found[0].schema_string).to_arrow()).field("value").type
    assert nullable(value) == nullable(schema.arrow)


@settings(max_examples=examples(20))
@given(any_fields())
def test_spark_knows_every_type(fields: StructType) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    text = replace(table_form(first_schema(fields.fields)), mapped=True).schema_string
    assert types.StructType.fromJson(json.loads(text)).jsonValue() == json.loads(text)


def test_a_version_that_changes_no_column_is_told_too() -> None:
    first = schema_of("a int not null")
    found = created(first)
    relaxed = evolve(first, parse_ddl("a int"))
    assert columns(updated(found, relaxed)[0]) == columns(found[0])
    assert updated(found, relaxed)[0].configuration["penstock.schemaVersion"] == "2"


def test_what_others_noted_on_a_column_stays_but_does_not_stand_for_ours() -> None:
    first = schema_of("a int")
    found, spoken = created(first)
    noted = [{**column, "metadata": {"theirs": 1, ID: 7}} for column in columns(found).values()]
    found = msgspec.structs.replace(found, schema_string=json.dumps({"type": "struct", "fields": noted}))
    later = evolve(evolve(first, parse_ddl("b int"), rename={"a": "b"}), parse_ddl("b bigint"))
    made = columns(updated((found, spoken), later)[0])
    ours = columns(created(later)[0])
    assert {name: column["metadata"] for name, column in made.items()} == {
        name: {"theirs": 1, **column["metadata"]} for name, column in ours.items()
    }
