"""The one reader of change events: of a message's body in any envelope, or a row of a typed topic."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from ...log.errors import InvalidArgument, PenstockError
from .debezium import ChangeEvent, NestedTooDeep, decode_event, is_control, parse_change, table_of
from .sources import TableId
from .standard_envelope import read_key, standard_change
from .stop_message import stop_reason
from .typed_events import TypedEvent


@dataclass(frozen=True, slots=True)
class UnreadableEvent:
    """An event without a change that could be read."""

    error: Exception
    source: TableId | None
    """The table; None where the event does not name it."""
    control: bool
    """Whether it is about the stream, and changes no row."""

    def reason(self, *, hidden: bool = False) -> str:
        """``hidden``: without the event's content, which may be masked."""
        error = self.error
        if not isinstance(error, PenstockError):
            return "it is no change event" if hidden else str(error)
        return error.message if hidden or error.observed is None else f"{error.message}: {error.observed}"


def read_event(body: bytes | TypedEvent | None, key: bytes | None = None) -> ChangeEvent | UnreadableEvent | None:
    """The change of one event; None for a tombstone, which adds nothing to the delete before it.

    ``key``: the message's. It is the row's where the event has none, as Kafka Connect sends a key beside its value.
    """
    change = _read(body)
    if key is None or not isinstance(change, ChangeEvent) or change.key:
        return change
    columns, schema = read_key(key)
    return replace(change, key=columns, schema_of_key=schema)


def _read(body: bytes | TypedEvent | None) -> ChangeEvent | UnreadableEvent | None:
    event: object = None
    try:
        if isinstance(body, TypedEvent):
            event = body
            return body.change()
        if (standard := standard_change(body or b"")) is not None:
            return standard
        event = decode_event(body or b"")
        change = parse_change(event)
    except (InvalidArgument, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, NestedTooDeep):
            event = error.outline
        control = is_control(event)
        return UnreadableEvent(error, event.source if isinstance(event, TypedEvent) else table_of(event), control)
    return change if change is None or change.op != "m" else replace(change, stop_reason=stop_reason(event))
