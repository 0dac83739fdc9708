"""RocketMQ's rules for SQL92 filters, one message at a time, as its classes have them: the judge of the compiled ones.

Expressions are nested tuples: ``("property", name)``, ``("literal", value)``, ``("not", e)``, ``("and", e, e)``, ``("or", e, e)``,
``("=", e, e)``, ``("<>", e, e)``, ``(">", e, e)`` and so on, ``("between", e, low, high)``, ``("in", name, texts)``, ``("is null", e)``,
``("contains", e, text)`` and so on; ``("not between", …)``, ``("not in", …)``, ``("is not null", …)``, ``("not contains", …)``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

Tree: TypeAlias = tuple[Any, ...]
_COMPARE = {"=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_MATCH = {"contains": lambda text, sought: sought in text, "startswith": str.startswith, "endswith": str.endswith}


class NoNumber(Exception):
    """RocketMQ's NumberFormatException: the message is not delivered."""


def delivered(tree: Tree, properties: Mapping[str, str]) -> bool:
    try:
        return _truth(tree, properties) is True
    except NoNumber:
        return False


def _truth(tree: Tree, properties: Mapping[str, str]) -> bool | None:
    """A condition's value; a bare property is false if it is there."""
    value = _value(tree, properties)
    return None if value is None else value is True


def _value(tree: Tree, properties: Mapping[str, str]) -> str | int | float | bool | None:
    kind = tree[0]
    if kind == "property":
        return properties.get(tree[1])
    if kind == "literal":
        return tree[1]
    if kind == "not":
        inner = _truth(tree[1], properties)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        decisive = kind == "or"
        terms = []
        for term in tree[1:]:
            terms.append(_truth(term, properties))
            if terms[-1] is decisive:
                return decisive
        return None if None in terms else not decisive
    if kind == "<>":
        return _value(("not", ("=", *tree[1:])), properties)
    if kind == "between":
        return _value(("and", (">=", tree[1], tree[2]), ("<=", tree[1], tree[3])), properties)
    if kind == "not between":
        return _value(("or", ("<", tree[1], tree[2]), (">", tree[1], tree[3])), properties)
    if kind in ("is null", "is not null"):
        return (_value(tree[1], properties) is None) == (kind == "is null")
    if kind in ("in", "not in"):
        text = properties.get(tree[1])
        return None if text is None else (text in tree[2]) == (kind == "in")
    word = kind.removeprefix("not ")
    if word in _MATCH:
        whole = _value(tree[1], properties) if tree[2] else None
        return isinstance(whole, str) and bool(_MATCH[word](whole, tree[2])) == (kind == word)
    return _compared(kind, _value(tree[1], properties), _value(tree[2], properties))


def _compared(symbol: str, left: Any, right: Any) -> bool | None:
    if symbol == "=" and (left is None) != (right is None):
        return None if left is None else False
    if left is None or right is None:
        return True if symbol == "=" else None
    if isinstance(left, str) and isinstance(right, str):
        if symbol != "=":
            left, right = _double(left), _double(right)
    elif isinstance(left, str):
        left = _read(left, right)
    elif isinstance(right, str):
        right = _read(right, left)
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(_COMPARE[symbol](left, right))


def _read(text: str, other: float) -> float:
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, int):
        if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(2**63) <= int(text) < 2**63:
            raise NoNumber(text)
        return int(text)
    return _double(text)


def _double(text: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise NoNumber(text)
    return float(text)
