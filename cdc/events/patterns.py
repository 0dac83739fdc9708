"""Patterns of names: ``*`` stands for any characters, dots too, and ``?`` for one."""

from __future__ import annotations

import re
from functools import lru_cache

_ANY = {"*": ".*", "?": "."}


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def matches(pattern: str, name: str) -> bool:
    return _compiled(pattern).fullmatch(name) is not None


def exactness(name: str) -> tuple[bool, int]:
    """A sort key: names before patterns, then those with more characters of their own."""
    return not is_pattern(name), sum(one not in _ANY for one in name)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_ANY.get(one) or re.escape(one) for one in pattern), re.DOTALL)
