"""The forms of values on the command line: positions, durations, sizes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    ParamType = click.ParamType
else:

    class ParamType(click.ParamType):
        """Click's, with the type of its values, for type checkers."""

        def __class_getitem__(cls, kind: object) -> type[click.ParamType]:
            return cls


_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNITS_BYTES = {
    "": 1,
    "b": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}


class DurationParam(ParamType[timedelta]):
    """``3d``, ``12h``, ``1h30m``, ``45s``, ``500ms``."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        duration = parse_duration(str(value))
        if duration is None:
            self.fail(f"{value!r} is no duration; write 3d, 12h, 1h30m, 45s or 500ms.", param, ctx)
        return duration


class RetentionParam(DurationParam):
    """A duration, or ``forever``."""

    name = "duration|forever"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        return FOREVER if value == "forever" else super().convert(value, param, ctx)


FOREVER = timedelta.max
"""The value that `RetentionParam` makes of ``forever``."""


class SizeParam(ParamType[int]):
    """``10GiB``, ``500MB``, ``1048576``."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip().lower())
        if match is None or match[2] not in _UNITS_BYTES:
            self.fail(f"{value!r} is no size; write 10GiB, 500MB or a number of bytes.", param, ctx)
        number = float(match[1]) if "." in match[1] else int(match[1])
        return int(number * _UNITS_BYTES[match[2]])


class AttemptsParam(ParamType["int | str"]):
    """A number of attempts, or ``unlimited``."""

    name = "number|unlimited"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text != "unlimited" and not re.fullmatch(r"[1-9]\d*", text):
            self.fail(f"{value!r} is no number of attempts; write 1, 2, … or unlimited.", param, ctx)
        return text if text == "unlimited" else int(text)


class TopicFilterParam(ParamType["tuple[str, str]"]):
    """``TOPIC=TAGS``."""

    name = "topic=tags"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        topic, found, tags = str(value).partition("=")
        if not found:
            self.fail(f"{value!r} is no filter; write 'orders=paid || refunded'.", param, ctx)
        return topic, tags


_LOOKS_LIKE_MS = 10**12
"""Numbers from here on are milliseconds since 1970, not offsets."""


class PositionParam(ParamType["int | datetime | str"]):
    """``earliest``, ``latest``, an offset, an ISO time (local unless it names a zone), or a time ago such as ``-10m``."""

    name = "position"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime | str:
        if not isinstance(value, str) or value in {"earliest", "latest"}:
            return value  # type: ignore[return-value]
        try:
            if value.isascii() and value.isdecimal():
                if int(value) >= _LOOKS_LIKE_MS:
                    time = datetime.fromtimestamp(int(value) / 1000, UTC)
                    self.fail(
                        f"{value} would be an offset; for the time in milliseconds write {time:%Y-%m-%dT%H:%M:%SZ}.", param, ctx
                    )
                return int(value)
            if value.startswith("-") and (ago := parse_duration(value[1:])) is not None:
                return datetime.now(UTC) - ago
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is no position; write earliest, latest, an offset, 2026-01-31T12:00 or -10m.", param, ctx)


class InstantParam(ParamType[datetime]):
    """An ISO time (local unless it names a zone), or a time from now such as ``+10m``."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        found = parse_instant(str(value))
        if found is None:
            self.fail(f"{value!r} is no time; write 2026-01-31T12:00 or +10m.", param, ctx)
        return found


def parse_instant(text: str) -> datetime | None:
    try:
        if text.startswith("+") and (ahead := parse_duration(text[1:])) is not None:
            return datetime.now(UTC) + ahead
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def parse_duration(text: str) -> timedelta | None:
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+", text):
        return None
    try:
        return timedelta(seconds=sum(float(count) * _UNITS_S[unit] for count, unit in re.findall(r"([\d.]+)(ms|[smhdw])", text)))
    except OverflowError:
        return None


def property_pair(text: str) -> tuple[str, str]:
    """The name and value of ``NAME=VALUE``. Raises `UsageError`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.UsageError(f"{text!r} is no property; write NAME=VALUE.")
    return name, value
