"""A source's values as values of the target's column, to compare by meaning: numbers by value, times by instant. An unreadable value is kept as text,
and equals nothing.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Values of one column as the target has them."""

    values: pa.Array
    odd: dict[int, str]
    """Values by row that cannot be of the column's type; ``values`` has NULL there."""

    def __getitem__(self, row: int) -> Any:  # noqa: ANN401 - any value
        return self.odd[row] if row in self.odd else self.values[row].as_py()

    def same(self, row: int, other: ColumnValues, other_row: int) -> bool:
        if row in self.odd or other_row in other.odd:
            return False
        return _alike(self.values[row].as_py(), other.values[other_row].as_py())


def _alike(one: Any, two: Any) -> bool:  # noqa: ANN401
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_alike, one, two))
    return bool(one == two) or (one != one and two != two)  # noqa: PLR0124 - NaN


def comparable(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float32() if types.is_float32(kind) else pa.float64()
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind):
        return pa.list_(comparable(kind.value_type))
    if types.is_boolean(kind):
        return pa.bool_()
    return pa.date32() if types.is_date(kind) else pa.string()


def as_column(column: pa.Array, kind: pa.DataType, *, empty_is_null: bool = False) -> ColumnValues:
    """``kind`` is `comparable`. With ``empty_is_null`` an empty text is NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values, odd = column, dict[int, str]()
    if values.type != kind:
        cast = _cast(column, kind)
        if cast is None:
            cast, odd = _one_by_one(column, kind)
        values = cast
    if empty_is_null and pa.types.is_string(kind):
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, kind), values)
    return ColumnValues(values, odd)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """None unless Arrow can read all, and as `_reader` does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _reads_alike(column.type, kind):
        return None
    try:
        cast = column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    # Arrow reads numbers that are too large as infinite.
    return None if pa.types.is_floating(kind) and pc.any(pc.is_inf(cast)).as_py() else cast


def _reads_alike(given: pa.DataType, kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    if types.is_null(given):
        return True
    if types.is_binary(kind):
        return types.is_large_binary(given) or types.is_binary_view(given) or types.is_fixed_size_binary(given)
    if types.is_timestamp(kind) and types.is_timestamp(given):
        return bool(given.tz) == bool(kind.tz)
    if types.is_string(given) or types.is_large_string(given) or types.is_string_view(given):
        return not types.is_timestamp(kind) or bool(kind.tz)
    if types.is_float32(kind) and (types.is_float64(given) or types.is_decimal(given)):
        return False  # the digits that are shown count, as in text
    numbers = types.is_integer(given) or types.is_decimal(given) or (types.is_floating(given) and types.is_floating(kind))
    return numbers and (types.is_integer(kind) or types.is_decimal(kind) or types.is_floating(kind))


def _one_by_one(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    import pyarrow as pa

    read, values, odd = _reader(kind), list[Any](), dict[int, str]()
    for row, value in enumerate(column.to_pylist()):
        try:
            values.append(None if value is None else read(value))
        except (ValueError, TypeError, ArithmeticError):
            values.append(None)
            odd[row] = value if isinstance(value, str) else str(value)
    return pa.array(values, kind), odd


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """A reader of a `comparable` type, which raises `ValueError`, `TypeError` or `ArithmeticError`."""
    import pyarrow as pa

    types = pa.types
    if types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return _instant if kind.tz else lambda value: _instant(value).replace(tzinfo=None)
    if types.is_list(kind):
        read = _reader(kind.value_type)
        return lambda value: [None if one is None else read(one) for one in _elements(value)]
    readers = {
        pa.int64(): _integer,
        pa.float32(): _single,
        pa.float64(): _double,
        pa.bool_(): _boolean,
        pa.binary(): _bytes,
        pa.date32(): _date,
    }
    return readers.get(kind, _text)


def _number(value: Any) -> Decimal:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _integer(value: Any) -> int:  # noqa: ANN401
    number = _number(value)
    if number != number.to_integral_value() or not -(2**63) <= number < 2**63:
        raise ValueError
    return int(number)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:  # noqa: ANN401
    with localcontext(Context(prec=_DIGITS_MAX, traps=[Inexact, InvalidOperation])):
        number = _number(value).quantize(Decimal(1).scaleb(-scale))
    if len(number.as_tuple().digits) > precision:
        raise ValueError
    return number


def _double(value: Any) -> float:  # noqa: ANN401
    number = _number(value)
    return _as_finite(float(number), number)


def _single(value: Any) -> float:  # noqa: ANN401
    """The nearest float of 32 bits, as a source's "0.1" means. A whole number must itself be such a float, as for the sync."""
    import pyarrow as pa

    number = _number(value)
    # By way of a double some numbers would be rounded twice.
    single = float(pa.scalar(str(number)).cast(pa.float32()).as_py())
    if isinstance(value, int) and single != value:
        raise ValueError
    return _as_finite(single, number)


def _as_finite(read: float, number: Decimal) -> float:
    if math.isinf(read) != number.is_infinite():
        raise OverflowError
    return read


def _boolean(value: Any) -> bool:  # noqa: ANN401
    known = {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}
    if (text := str(value).lower()) not in known:
        raise ValueError
    return known[text]


def _bytes(value: Any) -> bytes:  # noqa: ANN401
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError
    # PostgreSQL writes hexadecimal digits behind \x; JSON has base64.
    return bytes.fromhex(value[2:]) if value.startswith("\\x") else base64.b64decode(value, validate=True)


def _date(value: Any) -> date:  # noqa: ANN401
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if (value.hour, value.minute, value.second, value.microsecond) != (0, 0, 0, 0):
            raise ValueError
        return value.date()
    if not isinstance(value, date):
        raise TypeError
    return value


def _elements(value: Any) -> list[Any]:  # noqa: ANN401
    found = json.loads(value, parse_float=Decimal) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise TypeError
    return found


def _instant(value: Any) -> datetime:  # noqa: ANN401
    """A time without a zone is in UTC."""
    if isinstance(value, str):
        whole, point, rest = value.partition(".")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if digits[6:].strip("0"):
            raise ValueError
        value = datetime.fromisoformat(whole + point + digits[:6] + rest[len(digits) :])
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise TypeError
    if getattr(value, "nanosecond", 0):  # the nanoseconds of pandas, whose times Arrow gives where it is installed
        raise ValueError
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _text(value: Any) -> str:  # noqa: ANN401
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_text)
        case bytes():
            return base64.b64encode(value).decode()
        case date():
            return value.isoformat()
        case _:
            return str(value)
