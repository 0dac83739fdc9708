"""Delayed messages that wait. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .bodies import BodyExcerpt, body_of

if TYPE_CHECKING:
    from ...log import WaitingMessage

LATE = timedelta(minutes=1)
"""The time after which a due message that still waits is late. Timers take a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedMessage:
    """A message that waits."""

    topic: str
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    producer: str
    queue: int | None
    sent: datetime
    due: datetime
    late: timedelta | None
    """None: not late."""
    body: BodyExcerpt
    recall_handle: str


def delayed_of(message: WaitingMessage, now: datetime, *, body_bytes: int | None = None) -> DelayedMessage:
    return DelayedMessage(
        topic=message.topic,
        message_id=message.message_id,
        message_group=message.message_group,
        tag=message.tag,
        keys=message.keys,
        properties=message.properties,
        producer=message.producer,
        queue=message.queue,
        sent=message.born_timestamp,
        due=message.delivery_timestamp,
        late=late_by(message.delivery_timestamp, now),
        body=body_of(message.body, most=body_bytes),
        recall_handle=message.recall_handle,
    )


def late_by(due: datetime, now: datetime) -> timedelta | None:
    """None: not late."""
    return now - due if now - due >= LATE else None
