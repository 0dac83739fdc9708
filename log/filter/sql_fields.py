"""Fields of typed messages in conditions: allowed comparisons, on whole columns (docs/0012).

Numbers are compared exactly: a literal that a field's type cannot hold is replaced by the greatest value below it that the type
holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..limits import plain
from ..schema.arrow_types import arrow_type, type_of_arrow
from ..schema.fields import (
    DECIMAL_DIGITS_MAX,
    FLOATS,
    INTEGER_BITS,
    TIMES,
    DecimalType,
    FieldType,
    PrimitiveType,
    StructType,
    is_number,
)
from ..schema.fields import Field as SchemaField
from ..schema.topic_schema import TopicSchema
from .sql_expressions import FieldReference, Scalar

_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "="}
_ON_COLUMNS: dict[str, Callable[..., pa.Array]] = {
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    "=": pc.equal,
}
_WITH = {
    PrimitiveType.BOOLEAN: "boolean is a condition, and is compared by = and <> with TRUE, FALSE and conditions",
    PrimitiveType.STRING: "string is compared by =, <>, IN, CONTAINS, STARTSWITH and ENDSWITH with texts",
    PrimitiveType.DATE: "date is compared with texts such as '2026-01-31'",
    PrimitiveType.TIMESTAMP: "timestamp is compared with texts such as '2026-01-31T12:00:00Z'",
    PrimitiveType.TIMESTAMP_NTZ: "timestamp_ntz is compared with texts such as '2026-01-31T12:00:00'",
}
_FINER = re.compile(r"[.,][0-9]{7}")
"""Finer than what is stored."""
_EXACT = Context(prec=2 * DECIMAL_DIGITS_MAX)
_WHOLE_DIGITS_MAX = 2 * DECIMAL_DIGITS_MAX
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, eq=False, slots=True)
class FieldValues:
    """The values of one field."""

    field: FieldReference
    type: FieldType
    values: pa.Array

    @staticmethod
    def of(structs: pa.StructArray | pa.ChunkedArray, field: FieldReference, schema: TopicSchema | None) -> FieldValues:
        """A field's values by any of its names in ``schema``. Raises `InvalidArgument`."""
        found = pc.struct_field(structs, _places(structs.type, field, () if schema is None else schema.fields))
        values = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        known = type_of_arrow(values.type, field.name)
        return FieldValues(
            field, known, values.cast(arrow_type(known)) if isinstance(known, PrimitiveType | DecimalType) else values
        )

    @property
    def truths(self) -> pa.Array:
        """Raises `InvalidArgument` if the field is not boolean."""
        if self.type is not PrimitiveType.BOOLEAN:
            raise self.refusal("it stands where a condition is called for")
        return self.values

    @property
    def texts(self) -> pa.Array:
        """Raises `InvalidArgument` if the values are no texts."""
        if self.type is not PrimitiveType.STRING:
            raise self.refusal("it stands where a text is called for")
        return self.values

    def compared(self, symbol: str, other: FieldValues | Scalar) -> pa.Array:
        """NULL where a side is NULL. Raises `InvalidArgument` for a comparison without a meaning."""
        if isinstance(other, FieldValues):
            return self._with_field(symbol, other)
        if isinstance(other, int | float) and not isinstance(other, bool) and is_number(self.type):
            return self._with_number(symbol, other)
        if isinstance(other, str) and self.type in TIMES:
            return _ON_COLUMNS[symbol](self.values, self._time(symbol, other))
        if isinstance(other, str) and self.type is PrimitiveType.STRING and symbol == "=":
            return pc.equal(self.values, other)
        raise self.refusal(f"{symbol} {_literal(other)}")

    def refusal(self, observed: str) -> InvalidArgument:
        if is_number(self.type):
            expected = f"{self.type} is compared with numbers"
        elif isinstance(self.type, PrimitiveType) and self.type in _WITH:
            expected = _WITH[self.type]
        else:
            expected = f"of {self.type} only IS NULL and IS NOT NULL are asked"
        return InvalidArgument(
            "the comparison has no meaning for the field's type",
            operation="filter",
            object=self.field.name,
            expected=expected,
            observed=observed,
        )

    def _with_number(self, symbol: str, number: float) -> pa.Array:
        below, exact = _below(self.type, number)
        if below is None or (symbol == "=" and not exact):
            truth = below is None and symbol in (">", ">=")
            return pc.if_else(pc.is_null(self.values), pa.scalar(None, pa.bool_()), pa.scalar(truth))
        if not exact:
            symbol = {">=": ">", "<": "<="}.get(symbol, symbol)
        values = self.values.cast(pa.float64()) if self.type in FLOATS else self.values
        return _ON_COLUMNS[symbol](values, pa.scalar(below, values.type))

    def _with_field(self, symbol: str, other: FieldValues) -> pa.Array:
        if is_number(self.type) and is_number(other.type):
            left, right = _alike(self, other)
        elif self.type == other.type and (self.type in TIMES or (self.type is PrimitiveType.STRING and symbol == "=")):
            left, right = self.values, other.values
        else:
            raise self.refusal(f"{symbol} {other.field.name}, which is {other.type}")
        return _ON_COLUMNS[symbol](left, right)

    def _time(self, symbol: str, text: str) -> pa.Scalar:
        try:
            return _moment(text, self.type)
        except ValueError as error:
            raise self.refusal(f"{symbol} {_literal(text)}") from error


def _places(structs: pa.StructType, field: FieldReference, known: tuple[SchemaField, ...]) -> list[int]:
    """A field's places in nested structs: by its own name, else by another name of the field."""
    type_: pa.DataType = structs
    places: list[int] = []
    for name in field.path:
        meant = StructType(known).by_sent_name.get(name)
        names = [name] if meant is None or meant.retired else [name, meant.name, *reversed(meant.former_names)]
        there = [place for one in names if pa.types.is_struct(type_) and (place := type_.get_field_index(one)) >= 0]
        if not there:
            raise _unknown(field, structs)
        places.append(there[0])
        type_ = type_.field(there[0]).type
        known = meant.type.fields if meant is not None and isinstance(meant.type, StructType) else ()
    return places


def mirrored(symbol: str) -> str:
    return _MIRRORED[symbol]


def _moment(text: str, type_: FieldType) -> pa.Scalar:
    if type_ is PrimitiveType.DATE:
        return pa.scalar(date.fromisoformat(text), pa.date32())
    time = datetime.fromisoformat(text)
    zoned = type_ is PrimitiveType.TIMESTAMP
    if (time.tzinfo is not None) is not zoned or _FINER.search(text):
        raise ValueError("no such time")
    since = time - datetime(1970, 1, 1, tzinfo=UTC if zoned else None)
    return pa.scalar(since // _MICROSECOND, pa.timestamp("us", "UTC" if zoned else None))


# --- Numbers --------------------------------------------------------------------------------------------------------------------------


def _below(type_: FieldType, number: float) -> tuple[Any, bool]:
    """The greatest value of a type up to a number, if any, and whether it is that number."""
    if type_ in FLOATS:
        near = float(number)
        exact = Fraction(near) == Fraction(number)
        return (near if Fraction(near) <= Fraction(number) else math.nextafter(near, -math.inf)), exact
    # A decimal literal means its digits, whatever double is nearest to them.
    wanted = Fraction(repr(number))
    if isinstance(type_, DecimalType):
        most = 10**type_.precision - 1
        least, scale = -most, type_.scale
    else:
        bits = INTEGER_BITS[type_]  # type: ignore[index]
        least, most, scale = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0
    floor = min(math.floor(wanted * 10**scale), most)
    if floor < least:
        return None, False
    exact = floor == wanted * 10**scale
    return (Decimal(floor).scaleb(-scale, _EXACT) if isinstance(type_, DecimalType) else floor), exact


def _alike(left: FieldValues, right: FieldValues) -> tuple[pa.Array, pa.Array]:
    """Two fields' numbers as one type: exact, or doubles if one of them is float or double."""
    if left.type in FLOATS or right.type in FLOATS:
        return _doubles(left), _doubles(right)
    scale = max(one.type.scale if isinstance(one.type, DecimalType) else 0 for one in (left, right))
    wide = pa.decimal256(_WHOLE_DIGITS_MAX, scale)
    return left.values.cast(wide), right.values.cast(wide)


def _doubles(of: FieldValues) -> pa.Array:
    if isinstance(of.type, DecimalType):
        return of.values.cast(pa.string()).cast(pa.float64())  # Arrow's own way to doubles does not give the nearest
    return of.values.cast(pa.float64(), safe=False)


# --- Errors ---------------------------------------------------------------------------------------------------------------------------


def _unknown(field: FieldReference, structs: pa.StructType) -> InvalidArgument:
    known = list(_paths(structs, ("value",)))
    near = next((one for one in known if one.lower() == field.name.lower()), None)
    return InvalidArgument(
        "the topic's schema has no such field",
        operation="filter",
        object=field.name,
        expected=", ".join(known),
        hint=f"names are told apart by case: {near}" if near else None,
    )


def _paths(structs: pa.StructType, under: tuple[str, ...]) -> Iterator[str]:
    for field in structs:
        path = (*under, field.name)
        yield ".".join(path)
        if pa.types.is_struct(field.type):
            yield from _paths(field.type, path)


def _literal(value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return str(value).upper()
    return plain(value)
