"""The fold of a batch's events of one row to one net change, relative to a row yet unseen.

A row has the position of its event; events below it are skipped. So a net change's effect depends, column by column, on the
position of the row that it meets (`NetChange.column_positions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from .events.conversion import KEEP

Key: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[int, int]

ALWAYS = 2**63 - 1
"""`NetChange.applies_up_to` of a change that applies at any position."""
NEVER = -1
"""The position of a column without an event: the row keeps its value."""


_KEEP_ID = id(KEEP)


def lacks_some(values: Sequence[Any]) -> bool:
    """Whether some value is `KEEP`; by identity, as a `Decimal` asks anything that it is compared with for its kind of number."""
    return _KEEP_ID in map(id, values)


class FormerRow(NamedTuple):
    """The row under its former key."""

    key: Key
    position: int | None
    place: Place
    """The place of the event that changed the key. Later events of the old key concern another row."""


class TargetRow(NamedTuple):
    """A row of the target."""

    values: tuple[Any, ...]
    position: int | None


class NetChange(msgspec.Struct, frozen=True, gc=False):
    """The net change of one row."""

    put: bool
    values: tuple[Any, ...]
    """Values by column, `KEEP` where no event had it. A removed row's known values stay, for a row that moved."""
    column_positions: tuple[int, ...] | None
    """The highest position of a row that takes the column's value; None: `applies_up_to` for all."""
    position: int | None
    applies_up_to: int
    """The highest position of a row that the change applies to; `ALWAYS` after an event without a position."""
    place: Place
    moved: FormerRow | None = None


class RowChange(msgspec.Struct, frozen=True, gc=False):
    """The change of one row by one event, in the target's types; or a truncate."""

    op: str
    """``t`` for a truncate, ``d`` for a delete, otherwise an upsert."""
    key: Key
    values: tuple[Any, ...]
    """The row's values by column, `KEEP` where the event has none; of no meaning for a delete but for their number."""
    position: int | None
    place: Place
    former: Key | None = None
    """The row's key before the event, if it was another."""


def apply_change(nets: dict[Key, NetChange], row: RowChange) -> None:
    """Apply the change to the net changes of the rows of its queue."""
    op, key, values, position, place, former = row.op, row.key, row.values, row.position, row.place, row.former
    if op == "t":
        for of_row, net in nets.items():
            nets[of_row] = truncated(net, position, before_it=True)
        return
    if op != "d":
        apply_upsert(nets, key, values, position, place, former)
        return
    if former is not None and (gone := remove(nets.get(former), len(values), position, place)) is not None:
        nets[former] = gone
    if (after := remove(nets.get(key), len(values), position, place)) is not None:
        nets[key] = after


def apply_upsert(
    nets: dict[Key, NetChange], key: Key, values: tuple[Any, ...], position: int | None, place: Place, former: Key | None
) -> None:
    if former is None:
        after = put(nets.get(key), values, position, place)
    else:
        origin = nets.get(former)
        if (gone := remove(origin, len(values), position, place)) is not None:
            nets[former] = gone
        after = move(origin, former, nets.get(key), values, position, place)
    if after is not None:
        nets[key] = after


def put(before: NetChange | None, values: tuple[Any, ...], position: int | None, place: Place) -> NetChange | None:
    """The net change after an upsert; None: it is skipped."""
    if before is None:
        applies_up_to = ALWAYS if position is None else position
        if not lacks_some(values):
            return NetChange(True, values, None, position, applies_up_to, place)
        known = tuple([NEVER if value is KEEP else applies_up_to for value in values])
        return NetChange(True, values, known, position, applies_up_to, place)
    if position is not None and before.position is not None and position < before.position:
        return None
    applies_up_to = ALWAYS if position is None or before.applies_up_to == ALWAYS else position
    if not lacks_some(values):
        return NetChange(True, values, None, position, applies_up_to, place)
    filled, column_positions = list(values), [applies_up_to] * len(values)
    for column, value in enumerate(values):
        if value is KEEP:
            filled[column] = before.values[column] if before.put else None
            column_positions[column] = _column_position(before, column)
    return NetChange(
        True, tuple(filled), tuple(column_positions), position, applies_up_to, place, before.moved if before.put else None
    )


def remove(before: NetChange | None, width: int, position: int | None, place: Place) -> NetChange | None:
    """The net change after a delete; None: it is skipped."""
    if before is None:
        return NetChange(False, (KEEP,) * width, None, position, ALWAYS if position is None else position, place)
    if position is not None and before.position is not None and position < before.position:
        return None
    applies_up_to = ALWAYS if position is None or before.applies_up_to == ALWAYS else position
    return NetChange(False, before.values, None, position, applies_up_to, place)


def move(
    origin: NetChange | None,
    key: tuple[Any, ...],
    before: NetChange | None,
    values: tuple[Any, ...],
    position: int | None,
    place: Place,
) -> NetChange | None:
    """The net change after an upsert that changed the row's key; None: it is skipped. Columns missing in the event come from
    ``origin``, the known state of the row under ``key``, its old key, or else from the target.
    """
    if not lacks_some(values) or (origin is not None and (not origin.put or _below(position, origin.position))):
        return put(before, values, position, place)  # a repetition: the row has moved already, and another row may have its key
    moved = FormerRow(key, position, place)
    if origin is not None:
        values = tuple([old if value is KEEP else value for value, old in zip(values, origin.values, strict=True)])
        moved = origin.moved or moved
    if not lacks_some(values):
        return put(before, values, position, place)
    made = put(None, values, position, place)
    if put(before, values, position, place) is None or made is None:
        return None
    applies_up_to = ALWAYS if before is not None and before.applies_up_to == ALWAYS else made.applies_up_to
    # If nothing is found of the old row, the row that it meets keeps what it has, but not what it had before it was removed.
    least = NEVER if before is None or before.put else before.applies_up_to
    column_positions = tuple([least if value is KEEP else applies_up_to for value in values])
    return replace(made, applies_up_to=applies_up_to, column_positions=column_positions, moved=moved)


def merged(one: NetChange, other: NetChange) -> NetChange:
    """The net change of two from different queues: by position where both have one, otherwise by place."""
    if one.position is not None and other.position is not None and one.position != other.position:
        first, last = (one, other) if one.position < other.position else (other, one)
    else:
        first, last = (one, other) if one.place < other.place else (other, one)
    applies_up_to = ALWAYS if first.applies_up_to == ALWAYS else last.applies_up_to
    if not last.put or last.column_positions is None:
        values = (
            tuple([k if v is KEEP else v for v, k in zip(last.values, first.values, strict=True)]) if not last.put else last.values
        )
        return replace(last, applies_up_to=applies_up_to, values=values)
    values_all, column_positions = list(last.values), list(last.column_positions)
    for column in range(len(values_all)):
        before = _column_position(first, column)
        if before > column_positions[column]:
            values_all[column] = first.values[column] if first.put else None
            column_positions[column] = before
    return replace(last, values=tuple(values_all), column_positions=tuple(column_positions), applies_up_to=applies_up_to)


def truncated(net: NetChange, position: int | None, *, before_it: bool) -> NetChange:
    """The net change after a truncate at ``position``. ``before_it``: the change came earlier in the truncate's own queue."""
    gone = net.position < position if net.position is not None and position is not None else before_it
    applies_up_to = ALWAYS if position is None or net.applies_up_to == ALWAYS else max(position, net.applies_up_to)
    if gone:
        return NetChange(False, (None,) * len(net.values), None, position, applies_up_to, net.place)
    if not net.put or net.column_positions is None:
        return net
    reset = ALWAYS if position is None else position
    moved = None if position is None else net.moved  # the row was there after the truncate
    values, column_positions = list(net.values), list(net.column_positions)
    for column, column_position in enumerate(column_positions):
        if column_position < reset and (position is not None or values[column] is KEEP):
            values[column], column_positions[column] = KEEP if values[column] is KEEP and moved is not None else None, reset
    return replace(net, values=tuple(values), column_positions=tuple(column_positions), moved=moved)


def filled(net: NetChange, found: tuple[Any, ...] | None) -> NetChange:
    """The net change of a row that moved, once its former row was looked up: ``found`` has its values.

    Without such a row, as when a move comes again, the target's row keeps its values.
    """
    if found is None or net.column_positions is None:
        return replace(net, moved=None)
    values = [found[column] if value is KEEP else value for column, value in enumerate(net.values)]
    column_positions = [
        net.applies_up_to if value is KEEP else known for value, known in zip(net.values, net.column_positions, strict=True)
    ]
    return replace(net, values=tuple(values), column_positions=tuple(column_positions), moved=None)


def finished(nets: dict[Key, NetChange], truncate: int | None, old: Mapping[Key, TargetRow] | None) -> None:
    """Apply truncates of other queues to changes below them, and give rows that moved their former values.

    ``old``: the target's rows that moved, by their old keys; None if all moves had all columns.
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
                if found is not None and _is_removed(there, truncate):
                    found = (None,) * len(found)  # the row that moved was made since, by what its events say
                if (
                    origin is not None
                    and not origin.put
                    and origin.place == moved.place
                    and any(value is not KEEP for value in origin.values)
                ):
                    before = found or (None,) * len(origin.values)  # what is known of it came by another queue
                    found = tuple([old if value is KEEP else value for value, old in zip(origin.values, before, strict=True)])
                nets[key] = filled(net, found)


def _is_removed(row: TargetRow | None, truncate: int | None) -> bool:
    if row is None or truncate is None:
        return False
    return truncate == ALWAYS or row.position is None or row.position < truncate


def _below(position: int | None, other: int | None) -> bool:
    return position is not None and other is not None and position < other


def _column_position(net: NetChange, column: int) -> int:
    return net.applies_up_to if net.column_positions is None or not net.put else net.column_positions[column]
