"""One message as the pages that list messages show it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ....log import MessageView
from ....log.schema.value_json import value_json
from ...operating.bodies import BodyExcerpt, body_of_message

LISTED_BODY_BYTES = 4 * 1024
"""The most bytes of a body in a list of messages: a whole page of them fits into the answer of a tool."""
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
    """The delivery time of a delayed message."""
    properties: dict[str, str]
    headers: int
    """The number of its headers."""
    fields: tuple[str, ...]
    """The beginning of each field of a typed row, in the order of the page's ``fields``."""
    body: BodyExcerpt
    """The body, or the row as JSON."""

    @property
    def order(self) -> tuple[datetime, int, int]:
        """The place among messages of several queues: by the time when they were stored."""
        return self.stored, self.queue, self.offset


def row_of(message: MessageView, fields: tuple[str, ...] = ()) -> MessageRow:
    """A message with the beginning of its body. ``fields`` are those of the topic's schema."""
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
        body=body_of_message(message, most=LISTED_BODY_BYTES),
    )


def _cell(value: object) -> str:
    """A field as a cell shows it."""
    match value:
        case None:
            return "-"
        case str():
            return value[:_CELL_CHARS]
        case dict() | list() | bytes():
            return value_json({"": value})[4:-1][:_CELL_CHARS]
        case _:
            return str(value)[:_CELL_CHARS]
