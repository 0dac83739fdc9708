"""Values on pages: foreign text is harmless and visible. Pure."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from enum import Enum

from ..terminal.output import duration_text

_KEPT = {"\n", "\t"}
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Printable characters without a picture: fillers, blanks, and selectors of variants, which can hide a text behind one letter."""
_PICTURES = 0x2400
_DELETE = "\x7f"


def visible(text: str) -> str:
    """Foreign text, with controls as pictures, and other unseen characters by number."""
    if not text.isprintable():
        text = "".join(char if char in _KEPT or char.isprintable() else _picture(char) for char in text)
    return text if text.isascii() else _BLANK.sub(lambda match: _numbered(match[0]), text)


def _picture(char: str) -> str:
    if char < " ":
        return chr(_PICTURES + ord(char))
    if char == _DELETE:
        return "\u2421"
    return _numbered(char) if unicodedata.category(char) in _UNSEEN else char


def _numbered(char: str) -> str:
    return f"[U+{ord(char):04X}]"


def value_text(value: object) -> str:
    match value:
        case None:
            return "-"
        case str() if not isinstance(value, Enum):
            return visible(value)
        case Enum():
            return visible(str(value.value))
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return rate_text(value)
        case datetime():
            return time_text(value)
        case timedelta():
            return age_text(value)
        case _:
            return visible(str(value))


def time_text(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def age_text(age: timedelta) -> str:
    """An age by its two greatest units."""
    whole = timedelta(seconds=age // timedelta(seconds=1)) if age >= timedelta(seconds=1) else age
    return " ".join(duration_text(whole).split()[:2])


def rate_text(rate: float) -> str:
    return f"{rate:,.1f}" if rate < 10 else f"{rate:,.0f}"


BODY_SHOWN_BYTES = 64 * 1024
