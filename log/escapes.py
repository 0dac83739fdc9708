"""Escapes characters of foreign text that control a terminal or end a line."""

from __future__ import annotations

import re

_STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""DEL and C1, Unicode's ends of lines, marks of direction, lone surrogates."""
_CONTROL = re.compile(f"[\x00-\x1f]|{_STEERING.pattern}")


def steers(text: str) -> bool:
    """Whether text has characters that control a terminal or end a line, or that are no Unicode. The same in every version of Python."""
    return _CONTROL.search(text) is not None


def escaped(text: str) -> str:
    """Text as one line, escaped as Python escapes what is not printable."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text)


def escaped_json(document: str) -> str:
    """An equivalent JSON document."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def text_of_error(error: BaseException) -> str:
    """An error's kind and text, also where its text cannot be formed."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a mistake in an exception of somebody's own
        return f"{type(error).__name__}, which cannot be shown"
