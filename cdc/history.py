"""Every version of a row (SCD type 2): a batch's changes of one row as the chain of versions that they make.

A version is valid from its own change until the next one. Whether the chain's beginning is older than what the target has is decided where
the two meet: changes at or below the position of the target's current version are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .changes import ALWAYS, Key
from .fold import Version
from .types import KEEP


class Link(NamedTuple):
    """One version in the chain of its row; a delete is one too, though nobody will see it: it ends the one before."""

    key: Key
    op: str
    values: tuple[Any, ...]
    kept: tuple[int, ...]
    """Columns that the target's current version is asked for, as nothing in the chain has them."""
    position: int | None
    level: int
    """The version counts unless the target's current one is at this position or above it."""
    valid_from_us: int
    valid_to_us: int | None
    """None: it is the row's newest."""
    number: int
    """In its chain."""


def chains(versions: Iterable[Version]) -> list[Link]:
    """The chains of all rows of one table; truncates end all of them."""
    by_key: dict[Key, list[Version]] = {}
    truncates = []
    for version in versions:
        if version.op == "t":
            truncates.append(version)
        else:
            by_key.setdefault(version.key, []).append(version)
    links: list[Link] = []
    for key, of_row in by_key.items():
        width = len(of_row[0].values)
        ends = [replace(one, key=key, values=(None,) * width) for one in truncates]
        links += _chain(_ordered([*of_row, *ends]))
    return links


def _ordered(versions: Sequence[Version]) -> Sequence[Version]:
    """By position where all have one, else by place: a row's events mostly come by one queue."""
    if all(version.position is not None for version in versions):
        return sorted(versions, key=lambda version: (version.position, version.place))
    return sorted(versions, key=lambda version: version.place)


def _chain(versions: Sequence[Version]) -> list[Link]:
    taken: list[Link] = []
    position: int | None = None
    level = -1
    for version in versions:
        if taken and version.position is not None and position is not None and version.position <= position:
            continue  # told again
        position = version.position
        level = ALWAYS if position is None or level == ALWAYS else position
        before = taken[-1] if taken else None
        values, kept = _filled(version, before)
        if before is not None:
            taken[-1] = before._replace(valid_to_us=version.time_us)
        op = "d" if version.op == "t" else version.op
        taken.append(Link(version.key, op, values, kept, position, level, version.time_us, None, len(taken)))
    return taken


def _filled(version: Version, before: Link | None) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """A version's values, what it lacks taken from the one before it; and the columns that only the target has."""
    lacking = [column for column, value in enumerate(version.values) if value is KEEP]
    if not lacking or version.op in "dt":
        return version.values, ()
    values = list(version.values)
    if before is None:
        for column in lacking:
            values[column] = None
        return tuple(values), tuple(lacking)
    for column in lacking:
        values[column] = None if before.op == "d" else before.values[column]
    kept = () if before.op == "d" else tuple(column for column in lacking if column in before.kept)
    return tuple(values), kept
