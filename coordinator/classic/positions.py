"""The positions that a group has committed on one topic, of all queues in one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, field
from msgspec.structs import replace

from ...log.format.stored_json import Number, StoredForm, damaged, parse_stored
from ...log.limits import FORMAT_BASIC, NUMBER_MAX, QUEUES_MAX
from ..cells.cells import WRITE_ID_BYTES
from ..cells.document import Codec
from ..groups.record import Position
from ..limits import CELL_STORED_BYTES_MAX

_WHAT: Final = "the positions of a consumer group"
NEVER: Final = -1
"""The generation of a cell that nobody wrote."""
_Signed = Annotated[int, Meta(ge=-1, le=NUMBER_MAX)]


class CommittedPosition(StoredForm, frozen=True, array_like=True):
    """The position of one queue: what is before it is done."""

    offset: Number
    leader_epoch: _Signed = -1
    """The epoch of the last message, as the client says; -1: it does not."""
    time_ms: Number = 0
    metadata: str = ""
    """The client's own text."""


class CommittedPositions(StoredForm, frozen=True):
    """The positions on one topic."""

    format: int = FORMAT_BASIC
    epoch: Number = 0
    """The epoch of the coordinator that wrote it. Earlier ones may write no more."""
    since: _Signed = NEVER
    """`Position.since`: positions of a former life of topic or group are none."""
    generations: Annotated[tuple[Number, ...], Meta(max_length=QUEUES_MAX)] = ()
    """The last reset carried out, for every queue."""
    queues: dict[int, CommittedPosition] = field(default_factory=dict)
    """The positions by queue. A queue that nobody committed is not in it."""


def caught_up(found: CommittedPositions, position: Position) -> CommittedPositions:
    """The positions with all resets carried out. The same value when none is left."""
    if found.since != position.since:
        found = CommittedPositions(epoch=found.epoch, since=position.since)
    if (more := len(position.generations) - len(found.generations)) > 0:
        found = replace(found, generations=(*found.generations, *(position.since,) * more))
    ordered = {
        queue: CommittedPosition(position.offsets[queue])
        for queue, generation in enumerate(position.generations)
        if generation > found.generations[queue]
    }
    if not ordered:
        return found
    generations = (*map(max, found.generations, position.generations), *found.generations[len(position.generations) :])
    return replace(found, generations=generations, queues={**found.queues, **ordered})


def committed(found: CommittedPositions, queues: Mapping[int, CommittedPosition]) -> CommittedPositions:
    return replace(found, queues={**found.queues, **queues})


def has_room(positions: CommittedPositions) -> bool:
    """Whether a cell holds them."""
    return len(encode_positions(positions)) <= CELL_STORED_BYTES_MAX - WRITE_ID_BYTES


def encode_positions(positions: CommittedPositions) -> bytes:
    return msgspec.json.encode(positions)


def decode_positions(data: bytes, *, where: str) -> CommittedPositions:
    """Raises `DataDamaged` or `NewerFormatError`."""
    found = parse_stored(data, CommittedPositions, what=_WHAT, where=where)
    if any(not 0 <= queue < len(found.generations) for queue in found.queues):
        raise damaged(_WHAT, "a position of a queue that the topic does not have", where=where)
    return found


POSITIONS_CELL: Final = Codec(encode_positions, decode_positions)
