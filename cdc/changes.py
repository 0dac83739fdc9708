"""What a batch of events does to one row: the fold to one net change, relative to a row that nobody has looked at yet.

A row has the position of the event that made it; an event below it is passed over. So what a net change does to the row it will meet
depends on that row's position, column by column: `Net.since` says from which position on each column is to be taken from the net change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from .types import KEEP

Key: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[int, int]
"""Queue and offset."""

ALWAYS = 2**63 - 1
"""The level of what no row's position holds up."""
NEVER = -1
"""The level of a column that no event had: the row keeps what it has."""


class Moved(NamedTuple):
    """Where a row had another key."""

    key: Key
    position: int | None
    place: Place
    """Of the event that gave it a new one. What comes later of the old key is of another row."""


class Old(NamedTuple):
    """A row that the target has."""

    values: tuple[Any, ...]
    position: int | None


class Net(NamedTuple):
    """The net change of one row."""

    put: bool
    """Whether there is a row after it."""
    values: tuple[Any, ...]
    """By column. `KEEP` where no event had it. Of a removed row, what was known of it: a row that moved takes it along."""
    since: tuple[int, ...] | None
    """By column, the level from which it counts; None: all count from ``level`` on."""
    position: int | None
    """Of the event that made it so."""
    level: int
    """The row it meets is changed unless its position is above. `ALWAYS` once an event had no position."""
    place: Place
    moved: Moved | None = None
    """The row that the columns are taken from which no event had."""


def put(before: Net | None, values: tuple[Any, ...], position: int | None, place: Place) -> Net | None:
    """After an upsert. None: it is passed over."""
    if before is None:
        level = ALWAYS if position is None else position
        if KEEP not in values:
            return Net(True, values, None, position, level, place)
        since = tuple([NEVER if value is KEEP else level for value in values])
        return Net(True, values, since, position, level, place)
    if position is not None and before.position is not None and position < before.position:
        return None
    level = ALWAYS if position is None or before.level == ALWAYS else position
    if KEEP not in values:
        return Net(True, values, None, position, level, place)
    filled, since_all = list(values), [level] * len(values)
    for column, value in enumerate(values):
        if value is KEEP:
            filled[column] = before.values[column] if before.put else None
            since_all[column] = _since(before, column)
    return Net(True, tuple(filled), tuple(since_all), position, level, place, before.moved if before.put else None)


def remove(before: Net | None, width: int, position: int | None, place: Place) -> Net | None:
    """After a delete. None: it is passed over."""
    if before is None:
        return Net(False, (KEEP,) * width, None, position, ALWAYS if position is None else position, place)
    if position is not None and before.position is not None and position < before.position:
        return None
    level = ALWAYS if position is None or before.level == ALWAYS else position
    return Net(False, before.values, None, position, level, place)


def move(
    origin: Net | None, key: tuple[Any, ...], before: Net | None, values: tuple[Any, ...], position: int | None, place: Place
) -> Net | None:
    """After an upsert by an event that gave a row its key: what the event lacks comes from ``origin``, what is known of the row of the old
    key, ``key``; what that lacks too is to be looked up in the target. None: it is passed over.
    """
    if KEEP not in values or (origin is not None and (not origin.put or _below(position, origin.position))):
        return put(before, values, position, place)  # told again: it has moved already, and another row may have its key
    moved = Moved(key, position, place)
    if origin is not None:
        values = tuple([old if value is KEEP else value for value, old in zip(values, origin.values, strict=True)])
        moved = origin.moved or moved
    if KEEP not in values:
        return put(before, values, position, place)
    made = put(None, values, position, place)
    if put(before, values, position, place) is None or made is None:
        return None
    level = ALWAYS if before is not None and before.level == ALWAYS else made.level
    since = tuple([NEVER if value is KEEP else level for value in values])
    return made._replace(level=level, since=since, moved=moved)


def merged(one: Net, other: Net) -> Net:
    """Of two net changes of one row that came by different queues: by position where both have one, else by place."""
    if one.position is not None and other.position is not None and one.position != other.position:
        first, last = (one, other) if one.position < other.position else (other, one)
    else:
        first, last = (one, other) if one.place < other.place else (other, one)
    level = ALWAYS if first.level == ALWAYS else last.level
    if not last.put or last.since is None:
        values = (
            tuple([k if v is KEEP else v for v, k in zip(last.values, first.values, strict=True)]) if not last.put else last.values
        )
        return last._replace(level=level, values=values)
    values_all, since_all = list(last.values), list(last.since)
    for column in range(len(values_all)):
        before = _since(first, column)
        if before > since_all[column]:
            values_all[column] = first.values[column] if first.put else None
            since_all[column] = before
    return last._replace(values=tuple(values_all), since=tuple(since_all), level=level)


def truncated(net: Net, position: int | None, *, before_it: bool) -> Net:
    """After a truncate of the table at ``position``; ``before_it``: it came before the truncate in the truncate's own queue."""
    gone = net.position < position if net.position is not None and position is not None else before_it
    level = ALWAYS if position is None or net.level == ALWAYS else max(position, net.level)
    if gone:
        return Net(False, (None,) * len(net.values), None, position, level, net.place)
    if not net.put or net.since is None:
        return net
    reset = ALWAYS if position is None else position
    moved = None if position is None else net.moved  # it was there after the truncate
    values, since = list(net.values), list(net.since)
    for column, from_level in enumerate(since):
        if from_level < reset and (position is not None or values[column] is KEEP):
            values[column], since[column] = KEEP if values[column] is KEEP and moved is not None else None, reset
    return net._replace(values=tuple(values), since=tuple(since), moved=moved)


def filled(net: Net, found: tuple[Any, ...] | None) -> Net:
    """A net change of a row that moved, once the row it came from was looked up: ``found`` has its values.

    None: there is none, as when a move is told again; then the row that it meets keeps what it has.
    """
    if found is None or net.since is None:
        return net._replace(moved=None)
    values = [found[column] if value is KEEP else value for column, value in enumerate(net.values)]
    since = [net.level if value is KEEP else since for value, since in zip(net.values, net.since, strict=True)]
    return net._replace(values=tuple(values), since=tuple(since), moved=None)


def finished(nets: dict[Key, Net], truncate: int | None, old: Mapping[Key, Old] | None) -> None:
    """Let truncates that other queues told of remove what is below them, and rows that moved take along what they had.

    ``old``: what the target had of rows that moved, by their old keys; None: none moved without saying all of its columns.
    """
    if truncate is not None:
        at = None if truncate == ALWAYS else truncate
        for key, net in nets.items():
            nets[key] = truncated(net, at, before_it=False)
    if old is not None:
        for key, net in nets.items():
            if (moved := net.moved) is not None:
                there, origin = old.get(moved.key), nets.get(moved.key)
                found = None if there is None or _below(moved.position, there.position) else there.values
                removed = origin is not None and not origin.put and origin.place == moved.place
                if origin is not None and removed and any(value is not KEEP for value in origin.values):
                    before = found or (None,) * len(origin.values)  # what is known of it came by another queue
                    found = tuple([old if value is KEEP else value for value, old in zip(origin.values, before, strict=True)])
                nets[key] = filled(net, found)


def _below(position: int | None, other: int | None) -> bool:
    return position is not None and other is not None and position < other


def _since(net: Net, column: int) -> int:
    return net.level if net.since is None or not net.put else net.since[column]
