"""Messages that failed and wait, or were in flight in a worker that died."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from ...coordinator.operators.parked import rows_at
from ...coordinator.queues.cell import MessageState, QueueCell, Tries
from ...coordinator.registry.failures import LastFailure
from ...log.message.message import from_ms
from ...log.read.reader import Reader
from .status import DeliveryState

_HELD = {MessageState.WAITING: DeliveryState.WAITING, MessageState.SUSPECT: DeliveryState.SUSPECT}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage:
    """A failed message, or a suspect."""

    topic: str
    queue: int
    offset: int
    fate: DeliveryState
    blocks: bool
    """Whether the messages of its message group wait behind it."""
    attempts: int
    failed_attempts: int
    """The failed deliveries that count."""
    due: datetime | None
    """The earliest time of its next try."""
    message_id: str | None
    """None, as are the fields below, for an unreadable message."""
    message_group: str | None
    stored: datetime | None
    failure: LastFailure | None = None
    """Why it failed last. None: not known."""


async def held_messages(
    reader: Reader,
    topic: str,
    queue: int,
    cell: QueueCell,
    *,
    most: int,
    elsewhere: Container[int] = (),
    failures: Iterable[LastFailure] = (),
) -> list[HeldMessage]:
    """The oldest ``most`` in the cell. Message groups blocked ``elsewhere``, in a former queue, have none here."""
    whys = {one.offset: one for one in failures if (one.topic, one.queue) == (topic, queue)}
    chosen = sorted(_held(cell, elsewhere), key=lambda one: one[0])[:most]
    rows = await rows_at(reader, queue, [offset for offset, _, _ in chosen]) if chosen else {}
    found = [_held_up(topic, queue, offset, tries, blocks, rows.get(offset, {})) for offset, tries, blocks in chosen]
    return [replace(one, failure=whys.get(one.offset)) for one in found]


def _held(cell: QueueCell, elsewhere: Container[int]) -> Iterator[tuple[int, Tries, bool]]:
    yield from ((offset, tries, False) for offset, tries in cell.tries.items() if tries.state in _HELD)
    for group, one in cell.markers.items():
        if one.tries.state in _HELD and group not in elsewhere:
            yield one.head, one.tries, True


def _held_up(topic: str, queue: int, offset: int, tries: Tries, blocks: bool, row: dict[str, object]) -> HeldMessage:
    message_id, message_group, stored = row.get("message_id"), row.get("message_group"), row.get("store_timestamp")
    return HeldMessage(
        topic=topic,
        queue=queue,
        offset=offset,
        fate=_HELD[tries.state],
        blocks=blocks,
        attempts=tries.attempts,
        failed_attempts=tries.strikes,
        due=from_ms(tries.due_ms) if tries.state is MessageState.WAITING and tries.due_ms else None,
        message_id=message_id if isinstance(message_id, str) else None,
        message_group=message_group if isinstance(message_group, str) else None,
        stored=stored if isinstance(stored, datetime) else None,
    )
