"""What the rows of a typed topic say: what programs of several versions sent, and what readers were shown of it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.log.message.message import VALUE
from penstock.log.schema.fields import ArrayType, DecimalType, FieldType, PrimitiveType, StructType, walk
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import TopicSchema

WHO = "who"
"""The field by which a row is known. It never changes."""

ById: TypeAlias = "dict[int, Any]"
"""A row by the numbers of its fields, and so the structs in it."""


@dataclass(slots=True)
class Rows:
    """What was sent to the topic, and what readers were shown of it."""

    versions: dict[int, TopicSchema] = field(default_factory=dict)
    """The versions that some program was written for."""
    sent: dict[str, ById] = field(default_factory=dict)
    shown: list[tuple[str, dict[str, Any] | None]] = field(default_factory=list)
    """Who read, and the row."""

    def row(self, who: str, group: str, rng: random.Random, blob: bytes = b"") -> dict[str, Any]:
        """A row of a program of any version."""
        schema = self.versions[rng.choice(sorted(self.versions))]
        given: dict[str, Any] = {WHO: who, _name(schema, 2): group}
        if blob:
            given[_name(schema, next(one.id for one in self.versions[1].fields if one.name == "blob"))] = blob
        row = _drawn(StructType(schema.fields), rng) | given
        self.sent[who] = _by_id(row, StructType(schema.fields))
        return row

    def contents(self, reader: str, rows: pa.Table | pa.RecordBatch, schema: TopicSchema | None) -> list[bytes]:
        """What rows are known by. ``schema``: that by which they are to be shown; None: they are."""
        if not rows.num_rows:
            return []
        value = rows.column(VALUE) if schema is None else shown_value(rows.column(VALUE), schema)
        found = value.to_pylist()
        self.shown += [(reader, one) for one in found]
        return [b"" if one is None else one[WHO].encode() for one in found]


def _name(schema: TopicSchema, number: int) -> str:
    return next(one.name for one in schema.fields if one.id == number)


def _drawn(type_: FieldType, rng: random.Random) -> Any:
    match type_:
        case StructType():
            return {one.name: _drawn(one.type, rng) for one in type_.live if not one.nullable or rng.random() < 0.7}
        case ArrayType(element):
            return [_drawn(element.type, rng) for _ in range(rng.randrange(3))]
        case DecimalType(precision, scale):
            return Decimal(rng.randrange(10**precision)).scaleb(-scale)
        case PrimitiveType.INT | PrimitiveType.BIGINT:
            return rng.randrange(2**31 if type_ is PrimitiveType.INT else 2**62)
        case PrimitiveType.FLOAT | PrimitiveType.DOUBLE:
            return rng.randrange(1000) / (8 if type_ is PrimitiveType.FLOAT else 3)
        case PrimitiveType.BINARY:
            return rng.randbytes(rng.randrange(4))
        case _:
            return rng.choice(["", "a", "größe"])


def _by_id(value: Any, type_: FieldType) -> Any:
    if value is None:
        return None
    match type_:
        case StructType():
            return {one.id: _by_id(value[one.name], one.type) for one in type_.live if value.get(one.name) is not None}
        case ArrayType(element):
            return [_by_id(one, element.type) for one in value]
        case _:
            return value


# --- The judge ------------------------------------------------------------------------------------------------------------------------


def wrong_rows(rows: Rows, versions: Mapping[int, TopicSchema]) -> Iterator[str]:
    """What readers were shown that nobody sent, or that is in the words of no version of the schema. ``versions`` are those of the log."""
    if sorted(versions) != list(range(1, len(versions) + 1)):
        yield f"E3 the log has versions {sorted(versions)} of the schema"
    for number, known in sorted(rows.versions.items()):
        if versions.get(number) != known:
            yield f"E3 version {number} of the schema was told, and is another one in the log"
    by_names = {_names(StructType(schema.fields)): schema for schema in versions.values()}
    for reader, value in rows.shown:
        sent = None if value is None else rows.sent.get(str(value.get(WHO)))
        if value is None or sent is None:
            yield f"E1 {reader} was shown {value}, which nobody sent"
            continue
        of_its_top = [schema for names, schema in by_names.items() if names[0] == frozenset(value)]
        if not any(value == _shown(sent, StructType(schema.fields)) for schema in of_its_top):
            yield f"E1 {reader} was shown {value}, where {sent} was sent; in the words of {len(of_its_top)} versions"


def _names(type_: StructType) -> tuple[frozenset[str], frozenset[str]]:
    """The names at the top, and all paths."""
    return frozenset(one.name for one in type_.live), frozenset(path for path, _ in walk(type_.live))


def _shown(value: Any, type_: FieldType) -> Any:
    """What a reader with this type is to be shown of a value that is known by the numbers of its fields."""
    if value is None:
        return None
    match type_:
        case StructType():
            return {one.name: _shown(value.get(one.id), one.type) for one in type_.live}
        case ArrayType(element):
            return [_shown(one, element.type) for one in value]
        case _:
            return value
