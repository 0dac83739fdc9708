"""PostgreSQL's values in an event's JSON, without loss.

| type | in JSON |
| --- | --- |
| smallint, integer, bigint, oid | a number |
| real, double precision | a number; NaN and the infinities are text |
| numeric, money | text, exactly as the source writes it |
| boolean | true, false |
| bytea | text in base64 |
| timestamp with time zone | ISO 8601 text in UTC, ``2026-11-22T03:04:05.678901Z`` |
| timestamp | ISO 8601 text without a zone |
| date, time, interval, uuid, enums, ranges, composites and all others | text |
| json, jsonb | text, which holds JSON |
| arrays | arrays of these |

Times before Christ and infinite ones stay as PostgreSQL writes them. A domain's values are those of its base type.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...log.errors import DataDamaged
from ...log.schema.fields import FieldType, PrimitiveType, array_of
from ..events.target_types import target_type
from .column_types import (
    BOOL,
    BYTEA,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TIMESTAMP,
    TIMESTAMPTZ,
    TYPES_BY_OID,
    numeric_type_of,
)

UNAVAILABLE = "__debezium_unavailable_value"
"""The placeholder for a value that the source did not send."""
UNAVAILABLE_BYTES = base64.b64encode(UNAVAILABLE.encode()).decode()

Convert: TypeAlias = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type in pg_type."""

    oid: int
    base: int = 0
    element: int = 0
    delimiter: str = ","
    modifier: int = -1
    """The modifier of a domain's base type."""


@dataclass(frozen=True, slots=True)
class ValueConversion:
    """The text form of one type's values."""

    convert: Convert
    unavailable: Any = UNAVAILABLE


def _boolean(text: str) -> bool:
    return text in ("t", "true")


def _float(text: str) -> float | str:
    number = float(text)
    return number if number - number == 0 else text


def _bytes(text: str) -> str:
    if not text.startswith("\\x"):
        raise DataDamaged("bytes are not in hexadecimal", expected="bytea_output = hex", observed=text[:16])
    return base64.b64encode(bytes.fromhex(text[2:])).decode()


def _timestamp(text: str) -> str:
    # The text is 2026-11-22 03:04:05.678901; with a year of more digits, BC or infinity it is no ISO text.
    return text[:10] + "T" + text[11:] if text[10:11] == " " and not text.endswith("BC") else text


def _zoned(text: str) -> str:
    return _timestamp(text[:-3]) + "Z" if text.endswith("+00") else text


TEXT = ValueConversion(str)
_BUILT_IN = {
    BOOL: ValueConversion(_boolean),
    BYTEA: ValueConversion(_bytes, UNAVAILABLE_BYTES),
    FLOAT4: ValueConversion(_float),
    FLOAT8: ValueConversion(_float),
    TIMESTAMP: ValueConversion(_timestamp),
    TIMESTAMPTZ: ValueConversion(_zoned),
} | dict.fromkeys((INT2, INT4, INT8, OID), ValueConversion(int))


class TypeConversions:
    """Conversions by type, with one query for each type that is not built in."""

    def __init__(self, describe: Callable[[int], PostgresType | None]) -> None:
        self._describe = describe
        self._known: dict[int, ValueConversion] = dict(_BUILT_IN)
        self._described: dict[int, PostgresType | None] = {}

    def of(self, type_oid: int) -> ValueConversion:
        """The conversion of a type; an unknown type is text."""
        known = self._known.get(type_oid)
        if known is None:
            known = self._known[type_oid] = self._found(self._asked(type_oid))
        return known

    def column_type(self, type_oid: int, modifier: int) -> FieldType:
        """Spark's type for a target's column; a domain's is its base type's. An array counts as one-dimensional: PostgreSQL
        does not declare dimensions.
        """
        if type_oid == NUMERIC:
            return numeric_type_of(modifier)
        if type_oid in TYPES_BY_OID:
            return TYPES_BY_OID[type_oid]
        described = self._asked(type_oid)
        if described is not None and described.base:
            return self.column_type(described.base, described.modifier)
        if described is not None and described.element:
            return target_type(array_of(self.column_type(described.element, modifier))) or PrimitiveType.STRING
        return PrimitiveType.STRING

    def base_of(self, type_oid: int) -> int:
        described = self._asked(type_oid) if type_oid not in _BUILT_IN else None
        return self.base_of(described.base) if described is not None and described.base else type_oid

    def is_array(self, type_oid: int) -> bool:
        described = self._asked(base) if (base := self.base_of(type_oid)) not in _BUILT_IN else None
        return described is not None and bool(described.element)

    def _asked(self, type_oid: int) -> PostgresType | None:
        if type_oid not in self._described:
            self._described[type_oid] = self._describe(type_oid)
        return self._described[type_oid]

    def _found(self, described: PostgresType | None) -> ValueConversion:
        if described is None:
            return TEXT
        if described.base:
            return self.of(described.base)
        if described.element:
            convert, delimiter = self.of(described.element).convert, described.delimiter
            return ValueConversion(lambda text: parse_array(text, convert, delimiter))
        return TEXT


def parse_array(text: str, convert: Convert, delimiter: str = ",") -> list[Any]:
    """An array in PostgreSQL's text, ``{1,NULL,"a b",{…}}``, perhaps after bounds. Raises `DataDamaged`."""
    start = text.find("{")
    if start < 0 or not text.endswith("}"):
        raise _no_array(text)
    items, end = _items(text, start + 1, convert, delimiter)
    if end != len(text):
        raise _no_array(text)
    return items


def _items(text: str, place: int, convert: Convert, delimiter: str) -> tuple[list[Any], int]:
    items: list[Any] = []
    try:
        while text[place] != "}":
            if text[place] == "{":
                item, place = _items(text, place + 1, convert, delimiter)
                items.append(item)
            elif text[place] == '"':
                quoted, place = _quoted(text, place + 1)
                items.append(convert(quoted))
            else:
                start = place
                while text[place] not in (delimiter, "}"):
                    place += 1
                word = text[start:place]
                items.append(None if word == "NULL" else convert(word))
            if text[place] == delimiter:
                place += 1
            elif text[place] != "}":
                raise _no_array(text)
    except IndexError:
        raise _no_array(text) from None
    return items, place + 1


def _quoted(text: str, place: int) -> tuple[str, int]:
    parts: list[str] = []
    while text[place] != '"':
        if text[place] == "\\":
            place += 1
        parts.append(text[place])
        place += 1
    return "".join(parts), place + 1


def _no_array(text: str) -> DataDamaged:
    return DataDamaged("this is no array as PostgreSQL writes them", expected="{…}", observed=text[:64])
