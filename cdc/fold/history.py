"""Every version of a row (SCD type 2): a batch's changes of one row as a chain of versions.

Where the chain meets the target's current version, changes below that version's position are passed over, and so are those at it that end with its
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import merge
from typing import Any, NamedTuple

from ..changes import ALWAYS, NEVER, Key
from ..events.conversion import KEEP
from .fold_result import RowVersion


class VersionLink(NamedTuple):
    """One version in the chain of its row. A delete ends the version before."""

    key: Key
    op: str
    values: tuple[Any, ...]
    column_positions: tuple[int, ...]
    """The `applies_up_to` of each column. The target's current version supplies columns whose number is below its position, or that have
    none (`NEVER`).
    """
    position: int | None
    applies_up_to: int
    """The version counts unless the target's current one is above this position, or at it with the same content."""
    valid_from_us: int
    valid_to_us: int | None
    """None: the row's newest version."""
    number: int
    last: bool = True
    """Whether it is the chain's last link of this position: a whole MySQL transaction may have one position."""


def chains(versions: Iterable[RowVersion]) -> list[VersionLink]:
    """The chains of all rows of one table; truncates end all of them."""
    by_key: dict[Key, list[RowVersion]] = {}
    truncates = []
    for version in versions:
        if version.op == "t":
            truncates.append(version)
        else:
            by_key.setdefault(version.key, []).append(version)
    links: list[VersionLink] = []
    for key, of_row in by_key.items():
        width = len(of_row[0].values)
        ends = [replace(truncate, key=key, values=(None,) * width) for truncate in truncates]
        links += _chain(_ordered([*of_row, *ends]))
    return links


def _ordered(versions: Sequence[RowVersion]) -> Sequence[RowVersion]:
    """The versions by position where all have one. Otherwise each queue is in its order, and the queues by the times of their next changes."""
    if all(version.position is not None for version in versions):
        return sorted(versions, key=lambda version: (version.position, version.place))
    queues: dict[int, list[RowVersion]] = {}
    for version in sorted(versions, key=lambda version: version.place):
        queues.setdefault(version.place[0], []).append(version)
    return list(merge(*queues.values(), key=lambda version: version.time_us))


def _chain(versions: Sequence[RowVersion]) -> list[VersionLink]:
    taken: list[VersionLink] = []
    applies_up_to = -1
    for version in versions:
        if taken and _told_again(version, taken[-1]):
            continue
        position = version.position
        applies_up_to = ALWAYS if position is None or applies_up_to == ALWAYS else position
        before = taken[-1] if taken else None
        values, column_positions = _filled(version, applies_up_to, before)
        if before is not None:
            taken[-1] = before._replace(valid_to_us=version.time_us, last=position is None or position != before.position)
        op = "d" if version.op == "t" else version.op
        taken.append(
            VersionLink(version.key, op, values, column_positions, position, applies_up_to, version.time_us, None, len(taken))
        )
    return taken


def _told_again(version: RowVersion, before: VersionLink) -> bool:
    """Whether a version lies behind the one before it, or repeats it at its position."""
    if version.position is None or before.position is None or version.position > before.position:
        return False
    if version.position < before.position:
        return True
    if version.op in "dt" or before.op == "d":
        return version.op in "dt" and before.op == "d"
    return all(value is KEEP or value == old for value, old in zip(version.values, before.values, strict=True))


def _filled(version: RowVersion, applies_up_to: int, before: VersionLink | None) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The values, filled up from the version before, and the position of each."""
    values, column_positions = list(version.values), [applies_up_to] * len(version.values)
    for column, value in enumerate(values):
        if value is KEEP:
            values[column] = None if before is None else before.values[column]
            column_positions[column] = NEVER if before is None else before.column_positions[column]
    return tuple(values), tuple(column_positions)
