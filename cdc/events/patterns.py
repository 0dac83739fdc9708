"""Patterns of names: ``*`` stands for any characters, dots too, and ``?`` for one. A name without either means itself."""

from __future__ import annotations

import re
from functools import lru_cache

_ANY = {"*": ".*", "?": "."}


def is_pattern(name: str) -> bool:
    """Whether a name may mean several."""
    return "*" in name or "?" in name


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern means this name."""
    return _compiled(pattern).fullmatch(name) is not None


def exactness(name: str) -> tuple[bool, int]:
    """How exactly a name says what it means: names before patterns, and those with more characters of their own before others."""
    return not is_pattern(name), sum(one not in _ANY for one in name)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_ANY.get(one) or re.escape(one) for one in pattern), re.DOTALL)
