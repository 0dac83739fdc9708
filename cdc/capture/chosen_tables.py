"""A capture's choice of tables, as the connector's properties in its state; pure."""

from __future__ import annotations

import re

_NO_NAME = re.compile(r"(?<!\\)[*+?()\[\]{}|^$]|\\\w")
"""The signs of a pattern for several names. A dot is any character, but plain lists have it without a backslash too."""


ChosenTables = tuple[tuple[str, str], ...]
CHOICE_PROPERTIES = ("database.include.list", "database.exclude.list", "table.include.list", "table.exclude.list")


def choice_text(chosen: ChosenTables) -> str:
    return ", ".join(f"{name}={value}" for name, value in chosen) or "all tables"


def may_overlap(one: ChosenTables, other: ChosenTables) -> bool:
    """Whether two choices may share a table: only lists of plain names without a common one cannot."""
    mine, theirs = dict(one), dict(other)
    for name in ("table.include.list", "database.include.list"):
        if name in mine and name in theirs:
            ours, others = _plain_names(mine[name]), _plain_names(theirs[name])
            if ours is not None and others is not None and not ours & others:
                return False
    return True


def _plain_names(patterns: str) -> set[str] | None:
    """The names in a list of patterns, in small letters, as the connector ignores case; None if others may match."""
    if _NO_NAME.search(patterns):
        return None
    return {pattern.strip().replace("\\", "").casefold() for pattern in patterns.split(",")}
