"""Types of Kafka Connect's schemas, which events may carry, and readers for values of those types that JSON has no type for. A reader
follows the schema, or the user's declaration for events without one.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from ...log.errors import InvalidArgument
from .types import BASE64, Convert, Unfit, UnfitTime, normal_type, unscaled

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_IN_400_YEARS = 146_097
_INFINITE = (-210_866_803_200_000_001, 9_223_371_331_200_000_000)
"""The bounds of times in microseconds: PostgreSQL's times lie between them, and the values that its connector writes for infinity do not."""


def connect_type(field: Mapping[str, Any]) -> tuple[str, Convert | None]:
    """The type that a field of a Connect schema calls for, and the reader of its values; None where JSON's value is the value."""
    name, kind = field.get("name") or "", field.get("type")
    if found := _NAMED.get(name):
        return found
    if name == "org.apache.kafka.connect.data.Decimal":
        parameters = field.get("parameters") or {}
        scale = int(parameters.get("scale", 0))
        precision = max(int(parameters.get("connect.decimal.precision", 38)), scale, 1)
        return (f"decimal({precision},{scale})" if precision <= 38 and scale >= 0 else "string"), lambda value: _unscaled(
            value, scale
        )
    return _KINDS.get(str(kind), "string"), None


_KINDS = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float": "float",
    "float64": "double",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}


def _unscaled(value: object, scale: int) -> object:
    return unscaled(value, scale) if isinstance(value, str) else value


def _variable_scale(value: object) -> object:
    return _unscaled(value["value"], int(value["scale"])) if isinstance(value, dict) else value


def _units(per_second: int) -> Convert:
    def read(value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        microseconds, rest = divmod(value * 1_000_000, per_second)
        if rest:
            raise UnfitTime(f"{_shown(value, per_second)} is more precise than microseconds")
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError as error:
            raise UnfitTime(f"{_shown(value, per_second)} is in no year from 1 to 9999") from error

    return read


def _shown(value: int, per_second: int) -> str:
    """Any time, as text."""
    if not _INFINITE[0] < value * 1_000_000 // per_second < _INFINITE[1]:
        return "infinity" if value > 0 else "-infinity"
    days, of_day = divmod(value, 86_400 * per_second)
    cycles, day = divmod(days + _EPOCH.toordinal() - 1, _DAYS_IN_400_YEARS)
    on = date.fromordinal(day + 1)
    year = on.year + 400 * cycles
    seconds, fraction = divmod(of_day, per_second)
    digits = f".{fraction:0{len(str(per_second)) - 1}d}" if fraction else ""
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}{on:-%m-%d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}+00:00"


def unfit_as_text(error: UnfitTime) -> str:
    """A time that only a column of text can hold, as text."""
    return str(error).partition(" is ")[0]


_NAMED: dict[str, tuple[str, Convert | None]] = {
    "io.debezium.data.VariableScaleDecimal": ("string", _variable_scale),
    "io.debezium.time.Date": ("date", None),
    "io.debezium.time.Timestamp": ("timestamp", _units(1_000)),
    "io.debezium.time.MicroTimestamp": ("timestamp", _units(1_000_000)),
    "io.debezium.time.NanoTimestamp": ("timestamp", _units(1_000_000_000)),
    "io.debezium.time.ZonedTimestamp": ("timestamp", None),
    "io.debezium.time.IsoTimestamp": ("timestamp", None),
    "io.debezium.time.IsoDate": ("date", None),
    "org.apache.kafka.connect.data.Date": ("date", None),
    "org.apache.kafka.connect.data.Timestamp": ("timestamp", _units(1_000)),
}


# --- What the user says of events without a schema ------------------------------------------------------------------------------

_UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_SAFE = str.maketrans("-_+/", "+/..")
_BYTES: dict[str, Callable[[str], bytes]] = {
    "base64": lambda text: base64.b64decode(text, validate=True),
    "base64-url-safe": lambda text: base64.b64decode((text + "=" * (-len(text) % 4)).translate(_SAFE), validate=True),
    "hex": binascii.unhexlify,
}
_TEXT = "text"
_WRITTEN = {"timestamp": tuple(_UNITS), "timestamp_ntz": tuple(_UNITS), "decimal": ("base64", _TEXT), "binary": tuple(_BYTES)}
_HEX = re.compile(r"(?:[0-9a-f]{4})+")
"""Hexadecimal text that is valid base64 as well."""


@dataclass(frozen=True, slots=True)
class Written:
    """How events write the values of a column when their schema does not say it."""

    type: str
    form: str
    """A unit of time since 1970, an encoding of bytes, or text as it is."""

    def reader(self) -> Convert:
        """A reader of the values, which raises `Unfit`. Numbers and texts that say what they are by themselves stay as they are."""
        if self.form in _UNITS:
            return _units(_UNITS[self.form])
        if self.form == _TEXT:
            return lambda value: value
        decode = _BYTES[self.form]
        scale = int(self.type.rstrip(")").partition(",")[2]) if self.type.startswith("decimal") else None

        def read(value: object) -> object:
            if not isinstance(value, str):
                return value
            try:
                return decode(value) if scale is None else _unscaled(value, scale)
            except ValueError as error:
                raise Unfit(f"{value[:60]!r} is no {self.form}, as declared by '{self.type} from {self.form}'") from error

        return read


def says_form(field: Mapping[str, Any], type_: str) -> bool:
    """Whether a field of Connect's schema says how text in a column of this type is written: bytes are base64, and no text of digits is
    bytes.
    """
    return field.get("type") == {"decimal": "string", "binary": "bytes"}.get(type_.partition("(")[0])


def either(type_: str) -> Convert | None:
    """A reader of text in a column of this type where nothing says in which mode a connector wrote it. It raises `Unfit` for text that
    would be another value in another mode. None: there are no such modes.
    """

    def number(value: object) -> object:
        if isinstance(value, str) and BASE64.fullmatch(value) and _is_number(value):
            raise _unsaid(value, "digits or bytes in base64", f"'{type_} from base64' or '{type_} from text'")
        return value

    def data(value: object) -> object:
        if isinstance(value, str) and _HEX.fullmatch(value):
            raise _unsaid(value, "base64 or hex", "'binary from base64' or 'binary from hex'")
        return value

    return {"decimal": number, "binary": data}.get(type_.partition("(")[0])


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def _unsaid(value: str, forms: str, declare: str) -> Unfit:
    return Unfit(f"nothing says whether {value[:60]!r} is {forms}: declare {declare}")


def declared_type(said: str) -> tuple[str, Written | None]:
    """A type as the user declares it, and its form: ``timestamp from milliseconds``. Raises `InvalidArgument`."""
    name, given, form = said.strip().lower().partition(" from ")
    kind, form = normal_type(name), form.strip()
    if not given:
        return kind, None
    if form not in (known := _WRITTEN.get(kind.partition("(")[0], ())):
        raise InvalidArgument(
            "nothing of this type is written so",
            operation="sync",
            expected=f"{kind} from {', '.join(known)}" if known else kind,
            observed=repr(said),
        )
    return kind, Written(kind, form)
