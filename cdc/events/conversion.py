"""The exact conversion of events' values to the types of columns: an unfit value is refused, never rounded.

Converters take JSON's values, with decimals as `Decimal`, or Python's own value of the type.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, DecimalException, Inexact, InvalidOperation
from types import EllipsisType
from typing import Any, Final, Self, TypeAlias

from ...log.schema.fields import FLOATS, TIMES, DecimalType, FieldType, PrimitiveType, integer_bits
from .floats import double, single
from .placeholders import UnavailablePlaceholder
from .target_types import element_of

Convert: TypeAlias = Callable[[Any], Any]

KEEP: Final[EllipsisType] = ...
"""The mark of a value that the event does not have, so that the row keeps its own."""
_DEBEZIUM = UnavailablePlaceholder.of()

_FRACTION = re.compile(r"[.,](\d{6})(\d+)")
_BEYOND = re.compile(
    r"[+-]?infinity|.* BC|[+-]\d{4,}-.*|\d{5,}-.*|0000-.*|.*[.,]\d{6,}[1-9]\d*(?:Z|[+-][\d:]+)?", re.IGNORECASE | re.DOTALL
)
_USUAL_CHARACTERS = 32
"""No text shorter than ``2026-11-20 12:17:33.190844+00:00`` has room for more than six digits elsewhere."""
_IN_UTC = frozenset({"Z", "+00", "+00:00"})
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


def converter(type_: FieldType, unavailable: UnavailablePlaceholder = _DEBEZIUM) -> Convert:
    """The converter takes no None, gives `KEEP` for a placeholder, and raises `UnfitValue`."""
    texts, is_it = unavailable.texts, unavailable.is_it
    if type_ is PrimitiveType.STRING:

        def text(value: Any) -> object:  # noqa: ANN401 - JSON
            if value.__class__ is str:
                return KEEP if value in texts else value if value.isascii() else characters(value)
            return KEEP if is_it(value) else text_of(value)

        return text
    if element_of(type_) is not None:
        elements = _exactly(type_)
        return lambda value: KEEP if is_it(value) else elements(value)  # a placeholder may be an array that fits
    convert = _converters(type_)

    def checked(value: Any) -> Any:  # noqa: ANN401 - JSON
        if value.__class__ is str and value in texts:
            return KEEP
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
            check_levels(value)
            if is_it(value):
                return KEEP
            raise _refusal(type_, value, error) from error

    return _quick(type_, texts, checked)


def _quick(type_: FieldType, texts: frozenset[str], checked: Convert) -> Convert:
    """The converter that takes the usual form of a value by itself, in a half of the time, and leaves all others to ``checked``."""
    if size := integer_bits(type_):
        low, high = -(1 << size - 1), (1 << size - 1) - 1
        return lambda value: value if value.__class__ is int and low <= value <= high else checked(value)
    if type_ is PrimitiveType.TIMESTAMP:

        def instant(value: Any) -> Any:  # noqa: ANN401 - JSON
            """Microseconds, as in ``2026-11-20T12:17:33.190844Z``."""
            if value.__class__ is str and value[26:] in _IN_UTC and value[19] == "." and value not in texts:
                try:
                    return datetime.fromisoformat(value)
                except ValueError:
                    pass  # refused below, with the reason
            return checked(value)

        return instant
    if isinstance(type_, DecimalType):
        exact, step = _steps(type_)

        def number(value: Any) -> Any:  # noqa: ANN401 - JSON
            if value.__class__ is str and value not in texts:
                try:
                    if (found := exact.quantize(Decimal(value), step)).is_finite():
                        return found
                except ArithmeticError:
                    pass  # refused below, with the reason
            return checked(value)

        return number
    return checked


def _exactly(type_: FieldType) -> Convert:
    """A converter of arrays and elements, among which a placeholder is a value."""
    if type_ is PrimitiveType.STRING:
        return lambda value: characters(value) if isinstance(value, str) else text_of(value)
    element = element_of(type_)
    convert = _converters(type_) if element is None else _array(each(_exactly(element)))

    def exactly(value: Any) -> Any:  # noqa: ANN401 - JSON
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
            check_levels(value)
            raise _refusal(type_, value, error) from error

    return exactly


def _array(convert: Convert) -> Convert:
    def checked(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            raise TypeError
        return convert(value)

    return checked


def each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A converter of arrays; what is no array stays. Raises `ValueError`, which names the element."""

    def convert_all(value: Any) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(value, list):
            return value
        found = []
        for number, one in enumerate(value, start=1):
            try:
                found.append(None if one is None else convert(one))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise ValueError(f"element {number}: {error}") from error
        return found

    return convert_all


def _refusal(type_: FieldType, value: object, error: Exception) -> UnfitValue:
    beyond = type_ in TIMES and (isinstance(error, OverflowError) or (isinstance(value, str) and _BEYOND.fullmatch(value)))
    return (UnfitTime if beyond else UnfitValue)(f"{_shown(value)} does not fit {type_}{_why(error)}")


def key_converter(type_: FieldType, unavailable: UnavailablePlaceholder = _DEBEZIUM) -> Convert:
    """Equal values are one in a key: zero has no sign, and NaN, which equals nothing, is unfit."""
    convert = converter(type_, unavailable)
    if not isinstance(type_, DecimalType) and type_ not in FLOATS:
        return convert

    def of_key(value: Any) -> Any:  # noqa: ANN401
        found = convert(value)
        if found != found:  # noqa: PLR0124 - NaN
            raise UnfitValue("NaN cannot be in a key")
        return found or abs(found)

    return of_key


def _converters(type_: FieldType) -> Convert:
    if size := integer_bits(type_):
        return _integer(size)
    if isinstance(type_, DecimalType):
        return _decimal(type_)
    converts: Mapping[FieldType, Convert] = {
        PrimitiveType.BOOLEAN: _boolean,
        PrimitiveType.FLOAT: single,
        PrimitiveType.DOUBLE: double,
        PrimitiveType.BINARY: _binary,
        PrimitiveType.DATE: _date,
        PrimitiveType.TIMESTAMP: _timestamp,
        PrimitiveType.TIMESTAMP_NTZ: _timestamp_ntz,
    }
    return converts[type_]


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


def check_names(row: Mapping[str, object], checked: set[str]) -> None:
    """Raise `UnfitValue` for a column whose name is no text. ``checked`` keeps the others for the next rows."""
    for name in row.keys() - checked:
        try:
            checked.add(characters(name))
        except UnfitValue as error:
            raise UnfitValue(f"column {name!r}: {error}") from error


def required_key_value(name: str, row: Mapping[str, Any], unavailable: UnavailablePlaceholder) -> object:
    """Raises `UnfitValue`."""
    value = row.get(name)
    if value is None or unavailable.is_it(value):
        raise UnfitValue(f"key column {name} is {'missing' if name not in row else 'NULL' if value is None else 'not logged'}")
    return value


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


def _steps(type_: DecimalType) -> tuple[Context, Decimal]:
    return Context(prec=type_.precision, traps=[Inexact, InvalidOperation]), Decimal(1).scaleb(-type_.scale)


def _decimal(type_: DecimalType) -> Convert:
    exact, step = _steps(type_)

    def convert(value: Any) -> Decimal:  # noqa: ANN401
        if value.__class__ is not str:
            if isinstance(value, dict) and value.keys() == {"scale", "value"}:  # a decimal of any scale says its own
                value = unscaled(value["value"], int(value["scale"]))
            if isinstance(value, bool) or not isinstance(value, int | Decimal):
                raise TypeError
        try:
            number = Decimal(value)
        except InvalidOperation as error:
            raise ValueError(
                f"if these are bytes, as decimal.handling.mode=precise writes them, declare '{type_} from base64'"
                if BASE64.fullmatch(str(value))
                else "it is no number"
            ) from error
        if not number.is_finite():
            raise ValueError
        return exact.quantize(number, step)

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
    if value.__class__ is str and _is_usual(value):
        return datetime.fromisoformat(value)
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
    if found := _FRACTION.search(value):  # Python would drop those digits
        if found[2].strip("0"):
            raise ValueError("it is more precise than microseconds")
        value = value[: found.start(2)] + value[found.end(2) :]
    return datetime.fromisoformat(value)


def _is_usual(text: str) -> bool:
    """Whether this is no time with more than six digits of a second: nearly all are as short as that."""
    return text[19:20] == "." and len(text) <= _USUAL_CHARACTERS and not text[26:27].isdecimal()


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
