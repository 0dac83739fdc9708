"""Times as Debezium's connectors write them.

Columns without a time zone are local times at the source. Times of day become text, the same in each mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from ..conversion import Convert, UnfitTime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_IN_400_YEARS = 146_097
_INFINITE = (-210_866_803_200_000_001, 9_223_371_331_200_000_000)
"""PostgreSQL's times are between these microseconds, and its connector's infinities outside."""
_INFINITE_DAYS = {-2_147_472_692: "infinity", -2_147_472_691: "-infinity"}
"""The connector's days for infinity."""
_SPECIAL = {"POSITIVE_INFINITY": "infinity", "NEGATIVE_INFINITY": "-infinity"}
_PICOSECONDS = 1_000_000_000_000


def instants(per_second: int) -> Convert:
    """A reader of integers since 1970."""
    return _units(per_second, zone=True)


def local_times(per_second: int) -> Convert:
    """A reader of integers since 1970, without a zone."""
    return _units(per_second, zone=False)


def _units(per_second: int, *, zone: bool) -> Convert:
    epoch, suffix = (_EPOCH, "+00:00") if zone else (_EPOCH.replace(tzinfo=None), "")

    def read(value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        microseconds, rest = divmod(value * 1_000_000, per_second)
        if rest:
            raise UnfitTime(f"{_shown(value, per_second, suffix)} is more precise than microseconds")
        try:
            return epoch + timedelta(microseconds=microseconds)
        except OverflowError as error:
            raise UnfitTime(f"{_shown(value, per_second, suffix)} is in no year from 1 to 9999") from error

    return read


def days(value: object) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return date(1970, 1, 1) + timedelta(days=value)
    except OverflowError as error:
        raise UnfitTime(f"{_INFINITE_DAYS.get(value) or _date_text(value)} is in no year from 1 to 9999") from error


def times_of_day(per_second: int) -> Convert:
    """A reader of integers since midnight, as text. MySQL's may be negative, and longer than a day."""

    def read(value: object) -> object:
        return _of_day(value, per_second) if isinstance(value, int) and not isinstance(value, bool) else value

    return read


def without_zone(value: object) -> object:
    """A reader of text to which connectors have put a zone."""
    return value.removesuffix("Z") if isinstance(value, str) else value


def structured_date(value: object) -> object:
    if not isinstance(value, dict):
        return value
    year, month, day = _parts(value, "year", "month", "day")
    shown = f"{year:04d}-{month:02d}-{day:02d}"
    try:
        return date(year, month, day)
    except ValueError as error:
        raise UnfitTime(f"{shown} is no day of a year from 1 to 9999") from error


def structured_time(value: object) -> object:
    """A time on a date, perhaps with a zone."""
    if not isinstance(value, dict):
        return value
    on = structured_date(value)
    assert isinstance(on, date)
    hour, minute, second = _parts(value, "hour", "minute", "second")
    fraction = _picoseconds(value)
    if fraction % 1_000_000:
        shown = _of_day(_seconds(value) * _PICOSECONDS + fraction, _PICOSECONDS)
        raise UnfitTime(f"{on.isoformat()}T{shown} is more precise than microseconds")
    zone = None if value.get("offsetSeconds") is None else timezone(timedelta(seconds=value["offsetSeconds"]))
    return datetime(on.year, on.month, on.day, hour, minute, second, fraction // 1_000_000, zone)


def structured_time_of_day(value: object) -> object:
    if not isinstance(value, dict):
        return value
    text = _of_day(_seconds(value) * _PICOSECONDS + _picoseconds(value), _PICOSECONDS)
    if (offset := value.get("offsetSeconds")) is None:
        return text
    if offset == 0:
        return f"{text}Z"
    of_zone = _of_day(abs(offset), 1)
    return f"{text}{'-' if offset < 0 else '+'}{of_zone.removesuffix(':00')}"


def unfit_as_text(error: UnfitTime) -> str:
    """A time that only a column of text can hold."""
    return str(error).partition(" is ")[0]


def _parts(value: Mapping[str, Any], *names: str) -> list[int]:
    if special := value.get("specialValue"):
        raise UnfitTime(f"{_SPECIAL.get(special, special)} is in no year from 1 to 9999")
    return [int(value[name]) for name in names]


def _seconds(value: Mapping[str, Any]) -> int:
    hour, minute, second = _parts(value, "hour", "minute", "second")
    return (hour * 60 + minute) * 60 + second


def _picoseconds(value: Mapping[str, Any]) -> int:
    return int(value.get("picoseconds") or 0)


def _of_day(value: int, per_second: int) -> str:
    seconds, fraction = divmod(abs(value), per_second)
    digits = f".{fraction:0{len(str(per_second)) - 1}d}".rstrip("0") if fraction else ""
    return f"{'-' if value < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"


def _shown(value: int, per_second: int, suffix: str) -> str:
    if not _INFINITE[0] < value * 1_000_000 // per_second < _INFINITE[1]:
        return "infinity" if value > 0 else "-infinity"
    on, of_day = divmod(value, 86_400 * per_second)
    seconds, fraction = divmod(of_day, per_second)
    digits = f".{fraction:0{len(str(per_second)) - 1}d}" if fraction else ""
    return f"{_date_text(on)}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}{suffix}"


def _date_text(days_since_1970: int) -> str:
    cycles, day = divmod(days_since_1970 + _EPOCH.toordinal() - 1, _DAYS_IN_400_YEARS)
    on = date.fromordinal(day + 1)
    year = on.year + 400 * cycles
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}{on:-%m-%d}"
