"""Text of others where people and programs read it line by line: what steers a terminal or ends a line is spelt out. Pure."""

from __future__ import annotations

import re

_STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What JSON may hold as it is, and no terminal should be given: DEL and C1, ends of lines of Unicode, marks of direction, half characters."""


def escaped(text: str) -> str:
    """Text as one line that steers nothing: what is not printable is spelt as Python spells it."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text)


def escaped_json(document: str) -> str:
    """A JSON document that says the same and steers nothing: in it such characters stand in strings only."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def text_of_error(error: BaseException) -> str:
    """Its kind and what it says, also where saying it fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a mistake in an exception of somebody's own
        return f"{type(error).__name__}, which cannot be shown"
