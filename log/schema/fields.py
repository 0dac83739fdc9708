"""The fields of a typed topic, of types that Spark, Delta, Iceberg and Arrow all know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

DECIMAL_DIGITS_MAX = 38
ELEMENT, KEY, VALUE = "element", "key", "value"
"""The names of parts in Parquet, Delta and Iceberg."""


class PrimitiveType(StrEnum):
    """A type without parts, named as in Spark's SQL."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """A moment, in microseconds."""
    TIMESTAMP_NTZ = "timestamp_ntz"
    """Date and time of day without a zone, in microseconds."""


INTEGER_BITS = {PrimitiveType.TINYINT: 8, PrimitiveType.SMALLINT: 16, PrimitiveType.INT: 32, PrimitiveType.BIGINT: 64}
FLOATS = (PrimitiveType.FLOAT, PrimitiveType.DOUBLE)
TIMES = (PrimitiveType.DATE, PrimitiveType.TIMESTAMP, PrimitiveType.TIMESTAMP_NTZ)


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact numbers of ``precision`` digits, ``scale`` of them behind the point."""

    precision: int
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(field_text(field, ': ') for field in self.live)}>"

    @property
    def live(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.retired)

    @property
    def by_sent_name(self) -> dict[str, Field]:
        """Fields by the names that producers of any version use. A former or retired name counts unless another field has it
        now, or two have had it.
        """
        meant = {field.name: field for field in self.live}
        older: dict[str, list[Field]] = {}
        for field in self.fields:
            for name in {*field.former_names, *([field.name] if field.retired else [])} - meant.keys():
                older.setdefault(name, []).append(field)
        return meant | {name: found[0] for name, found in older.items() if len(found) == 1}


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list."""

    element: Field

    def __str__(self) -> str:
        return f"array<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map, whose keys are never NULL."""

    key: Field
    value: Field

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


FieldType: TypeAlias = PrimitiveType | DecimalType | StructType | ArrayType | MapType
"""The text of each is Spark's SQL, without retired fields."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct, or an element, key or value."""

    name: str
    type: FieldType
    nullable: bool = True
    doc: str = ""
    id: int = 0
    """Never changes; 0: not given yet."""
    stored_name: str = ""
    """Its column in files, which never changes; empty: not given yet."""
    retired: int = 0
    """The schema version that retired it; 0: it is in use."""
    former_names: tuple[str, ...] = ()
    """Oldest first. Older producers go on using them."""


def array_of(element: FieldType) -> ArrayType:
    """An array whose elements may be NULL."""
    return ArrayType(Field(ELEMENT, element))


def decimal_of(precision: int, scale: int) -> DecimalType | None:
    """None: there is no such decimal."""
    fits = 1 <= precision <= DECIMAL_DIGITS_MAX and 0 <= scale <= precision
    return DecimalType(precision, scale) if fits else None


def integer_bits(type_: FieldType) -> int | None:
    """None for types other than integers."""
    return INTEGER_BITS.get(type_) if isinstance(type_, PrimitiveType) else None


def is_number(type_: FieldType) -> bool:
    return isinstance(type_, DecimalType) or type_ in INTEGER_BITS or type_ in FLOATS


def parts_of(type_: FieldType) -> tuple[Field, ...]:
    match type_:
        case StructType(fields):
            return fields
        case ArrayType(element):
            return (element,)
        case MapType(key, value):
            return key, value
        case _:
            return ()


def with_parts(type_: FieldType, parts: tuple[Field, ...]) -> FieldType:
    match type_:
        case StructType():
            return StructType(parts)
        case ArrayType():
            return ArrayType(*parts)
        case MapType():
            return MapType(*parts)
        case _:
            return type_


def walk(fields: tuple[Field, ...], under: str = "") -> Iterator[tuple[str, Field]]:
    """Every field with its path, such as ``items.element.price``, parents first."""
    for field in fields:
        path = join(under, field.name)
        yield path, field
        yield from walk(parts_of(field.type), path)


def join(under: str, name: str) -> str:
    return f"{under}.{name}" if under else name


def field_text(field: Field, between: str = " ") -> str:
    """A field in Spark's SQL: ``amount decimal(12,2) not null``."""
    name = field.name if _IDENTIFIER.fullmatch(field.name) else f"`{field.name.replace('`', '``')}`"
    doc = field.doc.replace("\\", "\\\\").replace("'", "\\'")
    return f"{name}{between}{field.type}{'' if field.nullable else ' not null'}" + (f" comment '{doc}'" if doc else "")


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
