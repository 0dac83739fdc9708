"""Carries out the orders in a group's record on a queue's cell, by the owner's next write."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..groups.record import Command, CommandKind, GroupRecord, Position
from ..limits import LETTERS_MAX
from .cell import Marker, MessageState, QueueCell, Tries
from .offsets import SettledOffsets


def begin(position: Position, queue: int) -> QueueCell:
    """The cell of a queue before its first take."""
    return QueueCell(generation=position.generations[queue], settled=SettledOffsets(position.offsets[queue]))


def caught_up(cell: QueueCell, record: GroupRecord, topic: str, queue: int, *, letters_max: float = LETTERS_MAX) -> QueueCell:
    """The cell with all orders carried out: a reset first, then later commands. The same cell when none is left.

    Commands that give messages up, and all later ones, wait while ``letters_max`` dead letters are unwritten. Dead letters stay assigned; those of a
    former life are marked.
    """
    position = record.positions[topic]
    if cell.generation < position.generations[queue]:
        lives_on = cell.generation >= position.since
        cell = cell.reset_to(position.offsets[queue], position.generations[queue], lives_on=lives_on)
    return with_commands_applied(cell, _of_queue(record, topic, queue), letters_max=letters_max)


def with_commands_applied(cell: QueueCell, commands: Iterable[Command], *, letters_max: float = LETTERS_MAX) -> QueueCell:
    """Commands carried out before do nothing."""
    for command in commands:
        if command.number > cell.commands:
            if command.generation == cell.generation:
                if command.kind is CommandKind.SKIP and len(cell.dead_letters.assigned) >= letters_max:
                    break
                cell = _obeying(cell, command)
            cell = replace(cell, commands=command.number)
    return cell


def waits_for_room(cell: QueueCell, record: GroupRecord, topic: str, queue: int) -> bool:
    """Whether `caught_up` is to be repeated once dead letters were written."""
    return any(command.number > cell.commands for command in _of_queue(record, topic, queue))


def _of_queue(record: GroupRecord, topic: str, queue: int) -> list[Command]:
    return [one for one in record.commands if (one.topic, one.queue) == (topic, queue)]


def _obeying(cell: QueueCell, command: Command) -> QueueCell:
    parkings = dict(zip(command.heads, command.attempts, strict=True))
    parked = {group: marker for group, marker in cell.markers.items() if marker.tries.state is MessageState.PARKED}
    meant = {group: marker for group, marker in parked.items() if parkings.get(marker.head) == marker.tries.attempts}
    if command.kind is CommandKind.RELEASE:
        return replace(cell, markers={**cell.markers, **{group: _released(marker) for group, marker in meant.items()}})
    given_up = sorted(marker.head for marker in meant.values())
    letters = cell.dead_letters.given_to(given_up)
    # The head was listed, so it counts as settled.
    behind = {group: marker.from_head(marker.head + 1) for group, marker in meant.items()}
    return replace(cell, markers={**cell.markers, **behind}, dead_letters=letters)


def _released(marker: Marker) -> Marker:
    return replace(marker, tries=Tries(MessageState.WAITING, marker.tries.attempts))
