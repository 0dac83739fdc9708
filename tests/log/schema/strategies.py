"""Drawn fields, as users may name them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from penstock.log.schema.fields import (
    ELEMENT,
    KEY,
    VALUE,
    ArrayType,
    DecimalType,
    Field,
    FieldType,
    MapType,
    PrimitiveType,
    StructType,
    parts_of,
)
from penstock.log.schema.rules import RESERVED

NAMES = st.from_regex(r"[a-zA-Z_äß][a-z0-9_-]{0,3}", fullmatch=True).filter(lambda name: name.lower() not in RESERVED)
PLAIN: st.SearchStrategy[FieldType] = st.sampled_from(list(PrimitiveType)) | st.tuples(
    st.integers(1, 38), st.integers(0, 38)
).filter(lambda digits: digits[1] <= digits[0]).map(lambda digits: DecimalType(*digits))
DOCS = st.sampled_from(["", "it's \\ one", "größer"])


def _nested(types: st.SearchStrategy[FieldType]) -> st.SearchStrategy[FieldType]:
    arrays = types.map(lambda type_: ArrayType(Field(ELEMENT, type_)))
    maps = st.tuples(PLAIN, types).map(lambda pair: MapType(Field(KEY, pair[0], nullable=False), Field(VALUE, pair[1])))
    return arrays | maps | structs(types)


def structs(types: st.SearchStrategy[FieldType]) -> st.SearchStrategy[StructType]:
    fields = st.builds(Field, NAMES, types, st.booleans(), DOCS)
    unique = st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field.name.lower())
    return unique.map(lambda made: StructType(tuple(made)))


TYPES: st.SearchStrategy[FieldType] = st.recursive(PLAIN, _nested, max_leaves=5)


def any_fields() -> st.SearchStrategy[StructType]:
    """The fields of a schema."""
    return structs(TYPES)


_BITS = {PrimitiveType.TINYINT: 8, PrimitiveType.SMALLINT: 16, PrimitiveType.INT: 32, PrimitiveType.BIGINT: 64}
_FIRST = datetime(1900, 1, 1)  # noqa: DTZ001 - of times without a zone
_TEXTS = ["", "a", "größe", "\U0001f600", "x" * 50]


def drawn_value(type_: FieldType, random: Random) -> Any:
    """A value that fits a type. Drawn by ``random`` alone: strategies for each type cost more than what they test."""
    match type_:
        case StructType():
            return {field.name: drawn_of_field(field, random) for field in type_.live}
        case ArrayType(element):
            return [drawn_of_field(element, random) for _ in range(random.randrange(3))]
        case MapType(key, value):
            return {drawn_value(key.type, random): drawn_of_field(value, random) for _ in range(random.randrange(3))}
        case DecimalType(precision, scale):
            most = 10 ** random.randint(1, precision) - 1
            return Decimal(random.randint(-most, most)).scaleb(-scale, Context(prec=60))
        case PrimitiveType.BOOLEAN:
            return random.random() < 0.5
        case PrimitiveType.FLOAT:
            return float(np.float32(random.choice([0.0, -1.5, 1e30, float("inf"), random.random()])))
        case PrimitiveType.DOUBLE:
            return random.choice([0.0, -1.5, 1e300, float("-inf"), random.random()])
        case PrimitiveType.STRING:
            return random.choice(_TEXTS)
        case PrimitiveType.BINARY:
            return random.randbytes(random.randrange(3))
        case PrimitiveType.DATE:
            return (_FIRST + timedelta(days=random.randrange(200_000))).date()
        case PrimitiveType.TIMESTAMP:
            return _time(random).replace(tzinfo=UTC)
        case PrimitiveType.TIMESTAMP_NTZ:
            return _time(random)
        case kind:
            most = 2 ** random.randrange(_BITS[kind])
            return random.randint(-most, most - 1)


def drawn_of_field(field: Field, random: Random) -> Any:
    """A value of a field, None too where it may be."""
    return None if field.nullable and random.random() < 0.3 else drawn_value(field.type, random)


def _time(random: Random) -> datetime:
    return _FIRST + timedelta(microseconds=random.randrange(400 * 365 * 86_400 * 10**6))


def drawn_step(
    fields: tuple[Field, ...], data: st.DataObject, rename: dict[str, str], retire: list[str], under: str
) -> tuple[Field, ...]:
    """The fields that a user may want next; what is renamed and retired goes into the two collections."""
    wanted: list[Field] = []
    in_use = [field for field in fields if not field.retired]
    names = {field.name.lower() for field in in_use}
    for field in in_use:
        path = f"{under}.{field.name}" if under else field.name
        chosen = data.draw(st.sampled_from(["keep", "keep", "rename", "retire", "wider"]))
        if chosen == "retire" and len(in_use) > 1 and len(retire) < len(in_use) - 1:
            retire.append(path)
            continue
        name = field.name
        if chosen == "rename" and f"{name}_r".lower() not in names:
            name = rename[path] = f"{name}_r"
            names.add(name.lower())
        type_ = field.type
        if isinstance(type_, StructType):
            type_ = StructType(drawn_step(type_.fields, data, rename, retire, path))
        elif chosen == "wider" and not parts_of(type_):
            type_ = (
                {PrimitiveType.INT: PrimitiveType.BIGINT, PrimitiveType.FLOAT: PrimitiveType.DOUBLE}.get(type_, type_)
                if isinstance(type_, PrimitiveType)
                else type_
            )
        wanted.append(replace(field, name=name, type=type_, nullable=field.nullable or data.draw(st.booleans())))
    if data.draw(st.booleans()) and "new" not in names:
        wanted.append(Field("new", data.draw(TYPES)))
    return tuple(wanted)
