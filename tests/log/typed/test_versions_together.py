"""Drawn evolutions with rows of programs of every version in between, through log, table and compaction, beside a plain model."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.schema.arrow_types import arrow_fields
from penstock.log.schema.fields import ArrayType, FieldType, MapType, StructType
from penstock.log.schema.topic_schema import TopicSchema
from tests.lakes import TIMEOUT_S
from tests.log.schema.strategies import any_fields, drawn_step, drawn_value
from tests.log.typed.lakes import TypedLake, typed_lake
from tests.thorough import examples


def means_the_same(old: FieldType, now: FieldType) -> bool:
    """Whether the names of an old version mean the same fields now. They do not where another field has got one of them."""
    match old, now:
        case StructType(), StructType():
            meant = now.by_sent_name
            return all(
                one.name in meant and meant[one.name].id == one.id and means_the_same(one.type, meant[one.name].type)
                for one in old.live
            )
        case ArrayType(one), ArrayType(other):
            return means_the_same(one.type, other.type)
        case MapType(_, one), MapType(_, other):
            return means_the_same(one.type, other.type)
        case _:
            return True


def by_id(value: Any, type_: FieldType) -> Any:
    """A value with its fields by their numbers."""
    if value is None:
        return None
    match type_:
        case StructType():
            return {one.id: by_id(value[one.name], one.type) for one in type_.live}
        case ArrayType(element):
            return [by_id(one, element.type) for one in value]
        case MapType(_, item):
            return {key: by_id(one, item.type) for key, one in value.items()}
        case _:
            return value


def shown(value: Any, type_: FieldType) -> Any:
    """The inverse, by another version."""
    if value is None:
        return None
    match type_:
        case StructType():
            return {one.name: shown(value.get(one.id), one.type) for one in type_.live}
        case ArrayType(element):
            return [shown(one, element.type) for one in value]
        case MapType(_, item):
            return {key: shown(one, item.type) for key, one in value.items()}
        case _:
            return value


def check(lake: TypedLake, schema: TopicSchema, sent: list[Any]) -> None:
    expected = [shown(one, StructType(schema.fields)) for one in sent]
    assert lake.values() == expected
    reader = lake.lake.reader("orders")
    table = reader.to_arrow()
    assert table.schema.field("value").type == schema.arrow
    for field in schema.live:
        some = reader.to_arrow(columns=["offset", f"value.{field.name}"])
        assert some["offset"].to_pylist() == list(range(len(sent)))
        assert some["value"].combine_chunks().field(field.name).equals(table["value"].combine_chunks().field(field.name))


@pytest.mark.slow
@pytest.mark.thorough
@settings(max_examples=examples(40), deadline=None)
@given(any_fields(), st.data(), st.integers(0, 2**32))
def test_every_reader_shows_what_every_version_sent(fields: StructType, data: st.DataObject, seed: int) -> None:
    chance = random.Random(seed)
    with typed_lake(pa.schema(arrow_fields(fields.fields)), retention=None) as lake:
        now = lake.lake.topic_schema("orders")
        assert now is not None
        versions = [now]
        sent: list[Any] = []
        with lake.lake.producer("orders") as old:
            for _ in range(chance.randint(2, 5)):
                rename: dict[str, str] = {}
                retire: list[str] = []
                wanted = drawn_step(versions[-1].fields, data, rename, retire, "")
                now = lake.lake.evolve_topic("orders", pa.schema(arrow_fields(wanted)), rename=rename, retire=retire)
                if now != versions[-1]:
                    versions.append(now)
                for _ in range(chance.randint(0, 3)):
                    written = StructType(chance.choice(versions).fields)
                    if not means_the_same(written, StructType(now.fields)):
                        continue
                    row = drawn_value(written, chance)
                    if chance.random() < 0.5:
                        old.send_row(row).result(timeout=TIMEOUT_S)
                    else:
                        old.send_batch([row]).result(timeout=TIMEOUT_S)
                    sent.append(by_id(row, written))
                if chance.random() < 0.6:
                    lake.upkeep()
        check(lake, now, sent)
        lake.upkeep()
        lake.upkeep()
        check(lake, now, sent)
