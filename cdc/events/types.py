"""Types of columns, and the exact conversion of events' values to them: an unfit value is refused, never rounded.

Types have Spark SQL's names. Converters take JSON's values, with decimals as `Decimal`, or Python's own value of the type.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, DecimalException, Inexact, InvalidOperation
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from ...log.errors import InvalidArgument
from .arrays import array_of, each, element_of
from .floats import double, single
from .placeholders import UnavailablePlaceholder

if TYPE_CHECKING:
    import pyarrow as pa

Convert: TypeAlias = Callable[[Any], Any]

KEEP: Final[EllipsisType] = ...
"""The mark of a value that the event does not have, so that the row keeps its own."""
_DEBEZIUM = UnavailablePlaceholder.of()

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "numeric": "decimal(10,0)",
    "dec": "decimal(10,0)",
    "decimal": "decimal(10,0)",
    "timestamp_ltz": "timestamp",
    "bool": "boolean",
    "text": "string",
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_SIMPLE = {"boolean", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"}
_FRACTION = re.compile(r"[.,](\d{6})(\d+)")
_BEYOND = re.compile(
    r"[+-]?infinity|.* BC|[+-]\d{4,}-.*|\d{5,}-.*|0000-.*|.*[.,]\d{6,}[1-9]\d*(?:Z|[+-][\d:]+)?", re.IGNORECASE | re.DOTALL
)
TEMPORAL = ("date", "timestamp", "timestamp_ntz")
_USUAL_CHARACTERS = 32
"""No text shorter than ``2026-11-20 12:17:33.190844+00:00`` has room for more than six digits elsewhere."""
_MILLISECONDS = range(-62_135_596_800_000, 253_402_300_800_000)
"""The milliseconds of the possible years of a time."""
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ALL_DIGITS = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_SAYS_NOTHING = (
    "Invalid isoformat string",
    "invalid literal for int()",
    "could not convert string to float",
    "Python int too large",
)
_PLAIN = 20_000
_SHOWN = 200
_LEVELS = 200


class UnfitValue(ValueError):
    """A value that its column cannot hold."""

    column: str | None = None
    """The column's name, if known."""

    def of(self, column: str) -> Self:
        self.column = column
        return self


class UnfitTime(UnfitValue):
    """A time that no column of its type can hold: infinite, in no year from 1 to 9999, or more precise than microseconds."""


def normal_type(name: str) -> str:
    """The one spelling of a type's name. Raises `InvalidArgument` for a type that no target's column can have."""
    if (found := _normal(name)) is None:
        raise InvalidArgument(
            "this is no type that a column of a target can have",
            expected=f"decimal(p,s), {', '.join(sorted([*_SIMPLE, *_INTEGERS]))}, or array<…> of these",
            observed=repr(name[:_SHOWN]),
            hint="maps and structs are written as JSON text: string",
        )
    return found


def _normal(name: str) -> str | None:
    lowered = name.strip().lower()
    lowered = _ALIASES.get(lowered, lowered)
    if lowered in _SIMPLE or lowered in _INTEGERS:
        return lowered
    if found := _DECIMAL.fullmatch(lowered):
        precision, scale = int(found[1]), int(found[2] or 0)
        return f"decimal({precision},{scale})" if 1 <= precision <= 38 and scale <= precision else None
    if (element := element_of(lowered)) is None or array_of(element) is None:
        return None
    found_element = _normal(element)
    return None if found_element is None else array_of(found_element)


def is_number(name: str) -> bool:
    return name in _INTEGERS or name in ("float", "double") or name.startswith("decimal")


def arrow_type(name: str) -> pa.DataType:
    import pyarrow as pa

    if (element := element_of(name)) is not None:
        return pa.list_(pa.field("element", arrow_type(element)))
    if size := _INTEGERS.get(name):
        return getattr(pa, f"int{size}")()
    if found := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(found[1]), int(found[2]))
    simple = {
        "boolean": pa.bool_(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    return simple[name]


# --- Inference ------------------------------------------------------------------------------------------------------------------


def infer(value: object) -> str | None:
    """The type of a JSON value."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "bigint" if -(2**63) <= value < 2**63 else "decimal(38,0)"
        case float() | Decimal():
            return "double"
        case _:
            return "string"


def joined(one: str | None, other: str | None) -> str | None:
    """The narrowest type that holds both."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    pair = {one, other}
    for narrow, wide in (("bigint", "decimal(38,0)"), ("bigint", "double")):
        if pair == {narrow, wide}:
            return wide
    return "string"


# --- Conversion -----------------------------------------------------------------------------------------------------------------


def converter(name: str, unavailable: UnavailablePlaceholder = _DEBEZIUM) -> Convert:
    """The converter takes no None, gives `KEEP` for a placeholder, and raises `UnfitValue`."""
    texts, is_it = unavailable.texts, unavailable.is_it
    if name == "string":

        def text(value: Any) -> object:  # noqa: ANN401 - JSON
            if value.__class__ is str:
                return KEEP if value in texts else value if value.isascii() else characters(value)
            return KEEP if is_it(value) else text_of(value)

        return text
    if element_of(name) is not None:
        elements = _exactly(name)
        return lambda value: KEEP if is_it(value) else elements(value)  # a placeholder may be an array that fits
    convert = _converters(name)

    def checked(value: Any) -> Any:  # noqa: ANN401 - JSON
        if value.__class__ is str and value in texts:
            return KEEP
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
            check_levels(value)
            if is_it(value):
                return KEEP
            raise _refusal(name, value, error) from error

    if size := _INTEGERS.get(name):
        within = range(-(1 << size - 1), 1 << size - 1)

        def whole(value: Any) -> Any:  # noqa: ANN401 - JSON
            return value if value.__class__ is int and value in within else checked(value)

        return whole

    return checked


def _exactly(name: str) -> Convert:
    """A converter of arrays and elements, among which a placeholder is a value."""
    if name == "string":
        return lambda value: characters(value) if isinstance(value, str) else text_of(value)
    element = element_of(name)
    convert = _converters(name) if element is None else _array(each(_exactly(element)))

    def exactly(value: Any) -> Any:  # noqa: ANN401 - JSON
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
            check_levels(value)
            raise _refusal(name, value, error) from error

    return exactly


def _array(convert: Convert) -> Convert:
    def checked(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            raise TypeError
        return convert(value)

    return checked


def _refusal(name: str, value: object, error: Exception) -> UnfitValue:
    beyond = name in TEMPORAL and (isinstance(error, OverflowError) or (isinstance(value, str) and _BEYOND.fullmatch(value)))
    return (UnfitTime if beyond else UnfitValue)(f"{_shown(value)} does not fit {name}{_why(error)}")


def key_converter(name: str, unavailable: UnavailablePlaceholder = _DEBEZIUM) -> Convert:
    """Equal values are one in a key: zero has no sign, and NaN, which equals nothing, is unfit."""
    convert = converter(name, unavailable)
    if name not in ("float", "double") and not _DECIMAL.fullmatch(name):
        return convert

    def of_key(value: Any) -> Any:  # noqa: ANN401
        found = convert(value)
        if found != found:  # noqa: PLR0124 - NaN
            raise UnfitValue("NaN cannot be in a key")
        return found or abs(found)

    return of_key


def _converters(name: str) -> Convert:
    if size := _INTEGERS.get(name):
        return _integer(size)
    if found := _DECIMAL.fullmatch(name):
        return _decimal(int(found[1]), int(found[2]))
    return {
        "boolean": _boolean,
        "float": single,
        "double": double,
        "binary": _binary,
        "date": _date,
        "timestamp": _timestamp,
        "timestamp_ntz": _timestamp_ntz,
    }[name]


def text_of(value: Any) -> str:  # noqa: ANN401
    """JSON for a value that is no text."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    check_levels(value)
    return characters(exact_json(value))


def characters(text: str) -> str:
    """Raises `UnfitValue` for half of a surrogate pair, which UTF-8 has not."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UnfitValue("it has half of a surrogate pair, which is no character") from error
    return text


def check_levels(value: object) -> None:
    """Raise `UnfitValue` for arrays and objects nested deeper than any stack allows."""
    level, number = [value], 0
    while level := [
        one for outer in level if isinstance(outer, dict | list) for one in _inside(outer) if isinstance(one, dict | list)
    ]:
        number += 1
        if number >= _LEVELS:
            raise UnfitValue(f"it is nested deeper than {_LEVELS} levels")


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value


def exact_json(value: object) -> str:
    """JSON text in which every number has all its digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(str(name), ensure_ascii=False)}:{exact_json(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(exact_json, value)) + "]"
    return _digits(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _digits(number: Decimal) -> str:
    """An exponent only for numbers beyond what a database writes out."""
    return f"{number:f}" if -_PLAIN < number.adjusted() < _PLAIN else str(number)


def _integer(bits: int) -> Convert:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Any) -> int:  # noqa: ANN401
        if value.__class__ is not int:
            if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
                raise TypeError
            if isinstance(value, Decimal) and value.adjusted() >= bits and value:
                raise OverflowError  # checked first: as an int, 1e3000000 has all its digits
            number = int(value)
            if number != Decimal(value):
                raise ValueError
            value = number
        if not low <= value <= high:
            raise OverflowError
        return value

    return convert


def unscaled(text: str, scale: int) -> Decimal:
    """An integer's bytes in base64, as Connect writes decimals. Raises `ValueError`."""
    if not (data := base64.b64decode(text, validate=True)):
        raise ValueError("a decimal of no bytes")
    return _ALL_DIGITS.scaleb(Decimal(int.from_bytes(data, "big", signed=True)), -scale)


def _decimal(precision: int, scale: int) -> Convert:
    name = f"decimal({precision},{scale})"
    exact = Context(prec=precision, traps=[Inexact, InvalidOperation])
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:  # noqa: ANN401
        if isinstance(value, dict) and value.keys() == {"scale", "value"}:  # a decimal of any scale says its own
            value = unscaled(value["value"], int(value["scale"]))
        if value.__class__ is not str and (isinstance(value, bool) or not isinstance(value, int | Decimal)):
            raise TypeError
        try:
            number = Decimal(value)
        except InvalidOperation as error:
            raise ValueError(
                f"if these are bytes, as decimal.handling.mode=precise writes them, declare '{name} from base64'"
                if BASE64.fullmatch(str(value))
                else "it is no number"
            ) from error
        if not number.is_finite():
            raise ValueError
        return number.quantize(step, context=exact)

    return convert


def _boolean(value: object) -> bool:
    if value in (0, 1) and isinstance(value, int):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("t", "true", "f", "false"):
        return value[0] in "tT"
    raise TypeError


def _binary(value: Any) -> bytes:  # noqa: ANN401
    if isinstance(value, bytes):
        return value
    return base64.b64decode(value, validate=True)


def _date(value: Any) -> date:  # noqa: ANN401
    if isinstance(value, datetime):
        raise TypeError
    if isinstance(value, date):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return date(1970, 1, 1) + timedelta(days=value)
    if not isinstance(value, str):
        raise TypeError
    return date.fromisoformat(value.removesuffix("Z"))


def _instant(value: Any) -> datetime:  # noqa: ANN401
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value in _MILLISECONDS:
            raise ValueError(
                "nothing says whether these are milliseconds or microseconds: declare 'timestamp from milliseconds' (or seconds, microseconds, "
                "nanoseconds), or let the events carry their schema, or text"
            )
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    if value.__class__ is not str or len(value) < 16 or value.isdecimal():  # Python reads digits alone as a date
        raise TypeError
    usual = len(value) <= _USUAL_CHARACTERS and value[19:20] == "." and not value[26:27].isdecimal()
    if not usual and (found := _FRACTION.search(value)):  # Python would drop those digits
        if found[2].strip("0"):
            raise ValueError("it is more precise than microseconds")
        value = value[: found.start(2)] + value[found.end(2) :]
    return datetime.fromisoformat(value)


def _timestamp(value: Any) -> datetime:  # noqa: ANN401
    instant = _instant(value)
    if instant.tzinfo is UTC:
        return instant
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def _timestamp_ntz(value: Any) -> datetime:  # noqa: ANN401
    instant = _instant(value)
    return instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)


def _shown(value: object) -> str:
    shown = value if isinstance(value, str) else exact_json(value) if isinstance(value, dict | list) else str(value)
    return repr(shown if len(shown) <= 60 else shown[:57] + "…") if isinstance(value, str) else shown[:60]


def _why(error: Exception) -> str:
    said = "" if isinstance(error, DecimalException | binascii.Error | TypeError) else str(error)
    return f": {said}" if said and not said.startswith(_SAYS_NOTHING) else ""
