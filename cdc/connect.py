"""Types of Kafka Connect's schemas, which events may carry, and what reads the values of those that JSON has no type for."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from .types import Convert, UnfitTime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_IN_400_YEARS = 146_097
_INFINITE = (-210_866_803_200_000_001, 9_223_371_331_200_000_000)
"""In microseconds: PostgreSQL's times lie between, and what its connector writes for infinity does not."""


def connect_type(field: Mapping[str, Any]) -> tuple[str, Convert | None]:
    """The type that a field of a Connect schema calls for, and what reads its values; None where JSON's value is the value."""
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
    if not isinstance(value, str):
        return value
    digits = base64.b64decode(value, validate=True)
    number = int.from_bytes(digits, "big", signed=True)
    sign, figures, _ = Decimal(number).as_tuple()
    return Decimal((sign, figures, -scale))


def _variable_scale(value: object) -> object:
    return _unscaled(value["value"], int(value["scale"])) if isinstance(value, dict) else value


def _units(per_second: int) -> Convert:
    def read(value: object) -> object:
        if not isinstance(value, int):
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
    """A time that no column but one of text can hold."""
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
