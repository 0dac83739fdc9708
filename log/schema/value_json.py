"""Values of typed topics as JSON and back.

Decimals are texts, so that no digit is lost, but read as numbers too; bytes are Base64; dates and times are ISO 8601, a moment with ``Z``. Floats
that JSON lacks are "NaN", "Infinity" and "-Infinity". A map is an object if its keys are texts; a list of pairs may stand for any map.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NoReturn

from ..errors import InvalidArgument
from ..limits import plain
from .fields import ELEMENT, INTEGER_BITS, ArrayType, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, join
from .topic_schema import TopicSchema

_OPERATION = "read a value's JSON"
_HINTS = {
    PrimitiveType.BINARY: "bytes are Base64",
    PrimitiveType.DATE: "such as 2026-01-31",
    PrimitiveType.TIMESTAMP: "a time with its zone, such as 2026-01-31T12:00:00Z",
    PrimitiveType.TIMESTAMP_NTZ: "a time without a zone, such as 2026-01-31T12:00:00",
}
"""Spellings of values that are not plain JSON."""
_ENDLESS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def value_json(value: Mapping[str, Any] | None) -> str:
    """Compact JSON, with fields in their order."""
    return json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def jsonable(value: Any) -> Any:  # noqa: ANN401 - of any type
    """A value of a topic's type, or a part of one."""
    match value:
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case list() | tuple():
            return list(map(jsonable, value))
        case Mapping():
            if all(isinstance(key, str) for key in value):
                return {key: jsonable(one) for key, one in value.items()}
            return [[jsonable(key), jsonable(one)] for key, one in value.items()]
        case Decimal():
            return format(value, "f")
        case bytes():
            return b64encode(value).decode()
        case datetime():
            if value.tzinfo is None:
                return value.isoformat()
            return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
        case date():
            return value.isoformat()
        case _:
            return value


def value_of_json(text: str | bytes, schema: TopicSchema) -> dict[str, Any] | None:
    """The value of a `value_json` text. A missing field is None. Raises `InvalidArgument`, naming the field by its path."""
    try:
        found = json.loads(text, parse_constant=_refuse_constant, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("this is no JSON", operation=_OPERATION, observed=plain(error)) from error
    value: dict[str, Any] | None = _read(found, StructType(schema.fields), "")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _read(found: Any, type_: FieldType, path: str) -> Any:  # noqa: ANN401 - of any type
    if found is None:
        return None
    try:
        match type_:
            case StructType():
                return _struct(found, type_, path)
            case ArrayType(element):
                return [_read(one, element.type, join(path, ELEMENT)) for one in _of(list, found)]
            case MapType(key, value):
                return _map(found, key, value, path)
            case DecimalType():
                return _decimal(found)
            case kind:
                return _READERS[kind](found)
    except InvalidArgument:  # of a part
        raise
    except (ValueError, ArithmeticError) as error:
        raise InvalidArgument(
            "the JSON is no value of the topic's schema",
            operation=_OPERATION,
            object=path or "the value",
            expected=str(type_),
            observed=str(found) if isinstance(found, Decimal) else plain(found),
            hint=_HINTS.get(type_) if isinstance(type_, PrimitiveType) else None,
        ) from error


def _of(cls: type, found: object) -> Any:  # noqa: ANN401 - a `cls`
    if type(found) is not cls:
        raise ValueError(f"no {cls.__name__}")
    return found


def _struct(found: object, type_: StructType, path: str) -> dict[str, Any]:
    given: dict[str, Any] = _of(dict, found)
    meant = type_.by_sent_name  # the text may be older than a rename or a retirement
    if extra := sorted(given.keys() - meant.keys()):
        raise InvalidArgument(
            "the schema has no such field",
            operation=_OPERATION,
            object=plain(join(path, extra[0])),
            expected=", ".join(field.name for field in type_.live),
        )
    read = {name: _read(value, meant[name].type, join(path, name)) for name, value in given.items()}
    return {**{field.name: None for field in type_.live if field.id not in {meant[name].id for name in given}}, **read}


def _map(found: object, key: Field, value: Field, path: str) -> dict[Any, Any]:
    if isinstance(found, dict) and (key.type is PrimitiveType.STRING or not found):
        pairs = list(found.items())
    else:
        pairs = [(name, item) for name, item in map(_pair, _of(list, found))]
    made = {_key(name, key, path): _read(item, value.type, join(path, value.name)) for name, item in pairs}
    if len(made) < len(pairs):
        raise ValueError("a key is there twice")
    return made


def _pair(found: object) -> Any:  # noqa: ANN401 - a key and a value
    if len(_of(list, found)) != 2:
        raise ValueError("no pair")
    return found


def _key(found: object, key: Field, path: str) -> Any:  # noqa: ANN401 - of any type
    if found is None:
        raise ValueError("a key is NULL")
    return _read(found, key.type, join(path, key.name))


def _decimal(found: object) -> Decimal:
    number = Decimal(found) if isinstance(found, str | int) and not isinstance(found, bool) else _of(Decimal, found)
    if not number.is_finite():
        raise ValueError("not finite")
    return number


def _float(found: object) -> float:
    if isinstance(found, str):
        if found not in _ENDLESS:
            raise ValueError("no number")
        return _ENDLESS[found]
    number = float(found if type(found) is int else _of(Decimal, found))
    if math.isinf(number):
        raise ValueError("too large")
    return number


def _time(zoned: bool) -> Callable[[object], datetime]:
    def read(found: object) -> datetime:
        time = datetime.fromisoformat(_of(str, found))
        if (time.tzinfo is not None) is not zoned:
            raise ValueError("a zone is missing, or must not be there")
        return time.astimezone(UTC) if zoned else time

    return read


_READERS: dict[PrimitiveType, Callable[[object], Any]] = {
    PrimitiveType.BOOLEAN: lambda found: _of(bool, found),
    **dict.fromkeys(INTEGER_BITS, lambda found: _of(int, found)),
    PrimitiveType.FLOAT: _float,
    PrimitiveType.DOUBLE: _float,
    PrimitiveType.STRING: lambda found: _of(str, found),
    PrimitiveType.BINARY: lambda found: b64decode(_of(str, found), validate=True),
    PrimitiveType.DATE: lambda found: date.fromisoformat(_of(str, found)),
    PrimitiveType.TIMESTAMP: _time(zoned=True),
    PrimitiveType.TIMESTAMP_NTZ: _time(zoned=False),
}
