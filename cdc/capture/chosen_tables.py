"""The choice of tables that a capture was given, as properties of a connector that its state keeps; pure."""

from __future__ import annotations

import re

_NO_NAME = re.compile(r"(?<!\\)[*+?()\[\]{}|^$]|\\\w")
"""What a pattern has that means more than one name. A dot may mean any character, but lists of names have it without a backslash too."""


ChosenTables = tuple[tuple[str, str], ...]
"""Properties that choose tables, as `CHOOSING` has them."""
CHOOSING = ("database.include.list", "database.exclude.list", "table.include.list", "table.exclude.list")


def choice_text(chosen: ChosenTables) -> str:
    """A choice of tables, for people."""
    return ", ".join(f"{name}={value}" for name, value in chosen) or "all tables"


def may_overlap(one: ChosenTables, other: ChosenTables) -> bool:
    """Whether two choices may have a table in both. Only lists of plain names, without a common one, are told apart."""
    mine, theirs = dict(one), dict(other)
    for name in ("table.include.list", "database.include.list"):
        if name in mine and name in theirs:
            ours, others = _plain_names(mine[name]), _plain_names(theirs[name])
            if ours is not None and others is not None and not ours & others:
                return False
    return True


def _plain_names(patterns: str) -> set[str] | None:
    """The names that a list of patterns means, in small letters, as the connector minds none; None: it may mean others too."""
    if _NO_NAME.search(patterns):
        return None
    return {pattern.strip().replace("\\", "").casefold() for pattern in patterns.split(",")}
