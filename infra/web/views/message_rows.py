"""One message in a list. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ....log import MessageView
from ....log.schema.value_json import value_json
from ...operating.bodies import BodyExcerpt, body_of_message

LISTED_BODY_BYTES = 4 * 1024
LISTED_BODY_BYTES_MAX = 64 * 1024
"""The shown part of a body, and the most that may be asked for."""
_CELL_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message of a list."""

    queue: int
    offset: int
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    stored: datetime
    due: datetime | None
    properties: dict[str, str]
    headers: int
    fields: tuple[str, ...]
    """The beginnings of a typed row's fields."""
    body: BodyExcerpt
    """The body, or the row as JSON."""

    @property
    def order(self) -> tuple[datetime, int, int]:
        """The order of several queues' messages, by store time."""
        return self.stored, self.queue, self.offset


def row_of(message: MessageView, fields: tuple[str, ...] = (), *, body_bytes: int = LISTED_BODY_BYTES) -> MessageRow:
    value = message.value or {}
    return MessageRow(
        queue=message.queue,
        offset=message.offset,
        message_id=message.message_id,
        message_group=message.message_group,
        tag=message.tag,
        keys=message.keys,
        stored=message.store_timestamp,
        due=message.delivery_timestamp,
        properties=dict(message.properties),
        headers=len(message.headers),
        fields=tuple(_cell(value.get(name)) for name in fields),
        body=body_of_message(message, most=body_bytes),
    )


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case str():
            return value[:_CELL_CHARS]
        case dict() | list() | bytes():
            return value_json({"": value})[4:-1][:_CELL_CHARS]
        case _:
            return str(value)[:_CELL_CHARS]
