"""Splits an expression into tokens, and shows their places in errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import InvalidArgument

KEYWORDS = frozenset(
    ["AND", "BETWEEN", "CONTAINS", "ENDSWITH", "FALSE", "IN", "IS", "NOT", "NULL", "OR", "STARTSWITH", "TRUE"],
)
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\n\r\f]+ | --[^\n\r]* | /\*.*?\*/)
      | (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
      | (?P<integer>0 | [1-9][0-9]*[lL]?)
      | (?P<text>'(?:''|[^'])*')
      | (?P<field>value(?:\.(?:[^\W\d]\w* | `[^`]+`))+(?![\w$]))
      | (?P<body>body(?:\.(?:\w+ | `[^`]+`))+(?![\w$]))
      | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<symbol><> | >= | <= | [=<>(),+-])""",
    re.VERBOSE | re.DOTALL,
)
FIELD_PART = re.compile(r"`[^`]+`|\w+")
"""A part of a field's name; the first is ``value`` or ``body``."""
_OTHERS = {
    "!=": "unequal is <>",
    "||": "write OR; tags are a filter of their own (TAGS IN ('a', 'b'))",
    "&&": "write AND",
    "!": "write NOT",
    '"': "texts stand between single quotes",
    "'": "a quote inside a text is written twice",
    "/*": "a comment ends with */",
    ".": "a field of a typed topic is value.name, of a JSON body body.name; other characters than letters, digits and _ need backticks",
    "*": "there is no arithmetic",
    "/": "there is no arithmetic",
    "%": "there is no arithmetic",
}
_OPEN = {"'": "a text is not closed", "/*": "a comment is not closed"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an expression."""

    kind: str
    """``keyword``, ``word``, ``field``, ``body``, ``integer``, ``float``, ``text``, ``symbol``, or ``end``."""
    text: str
    """Keywords in capitals; a text with its quotes."""
    at: int


def refusal(message: str, expression: str, at: int, *, expected: str | None = None, hint: str | None = None) -> InvalidArgument:
    rest = expression[at : at + 40]
    return InvalidArgument(
        message,
        operation="filter",
        object=expression,
        expected=expected,
        observed=f"column {at + 1}: {rest}" if rest else f"column {at + 1}: the end",
        hint=hint,
    )


def tokens(expression: str) -> Iterator[Token]:
    """The last token is an ``end``. Raises `InvalidArgument` at text that is no token."""
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            other = next((text for text in _OTHERS if expression.startswith(text, at)), "")
            raise refusal(_OPEN.get(other, "unknown character"), expression, at, hint=_OTHERS.get(other))
        kind, text = str(found.lastgroup), found.group()
        if kind == "word" and text.upper() in KEYWORDS:
            yield Token("keyword", text.upper(), at)
        elif kind != "blank":
            yield Token(kind, text, at)
        at = found.end()
    yield Token("end", "", at)
