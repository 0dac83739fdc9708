"""Rows that do not fit their topic's schema, on their way to the topic beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from ..limits import MIB, plain
from ..message.message import Message
from ..schema.value_json import jsonable
from ..schema.values import BadValue
from .receipts import Receipt

INVALID_SUFFIX = "-invalid"
REASON, FIELD, TOPIC, MESSAGE_ID = "penstock-reason", "penstock-field", "penstock-topic", "penstock-message-id"
"""Properties of diverted rows."""
_REASON_CHARS_MAX = 1_000
_ROW_BYTES_MAX = 4 * MIB - 1


class InvalidRowSender(Protocol):
    """The sender of such rows."""

    def send(self, message: Message, *, queue: int | None = None, sequence: int | None = None) -> Receipt: ...


async def divert(
    sender: InvalidRowSender,
    topic: str,
    bad: Mapping[int, BadValue],
    rows: Mapping[int, object],
    ids: Mapping[int, str],
    sequences: Mapping[int, int],
) -> None:
    """Send bad rows, all by place, to the topic ``NAME-invalid``. Returns when they are durable.

    With sequences a row that an earlier instance of the producer's name sent is not sent again.
    """
    receipts = [
        sender.send(_message(topic, fault, rows[at], ids[at]), sequence=sequences.get(at)) for at, fault in sorted(bad.items())
    ]
    await asyncio.gather(*(_durable(receipt) for receipt in receipts))


async def _durable(receipt: Receipt) -> None:
    await receipt


def _message(topic: str, fault: BadValue, row: object, message_id: str) -> Message:
    reason = _visible(f"expected {fault.expected}, found {fault.found}")[:_REASON_CHARS_MAX]
    properties = {REASON: reason, FIELD: _visible(fault.path)[:_REASON_CHARS_MAX], TOPIC: topic, MESSAGE_ID: message_id}
    return Message(row_text(row).encode("utf-8", "replace")[:_ROW_BYTES_MAX], properties=properties)


def row_text(row: object) -> str:
    """A row as JSON, its values as `value_json` writes them; others as Python shows them."""
    try:
        return _json(row)
    except Exception:  # noqa: BLE001 - too deep, in itself, too many digits, or an object with a mistake of its own
        named = row if isinstance(row, Mapping) else {"": row}
        return json.dumps({str(name): _shown(value) for name, value in named.items()}, ensure_ascii=False)


def _json(value: object) -> str:
    return json.dumps(_parts(value), ensure_ascii=False)


def _shown(value: object) -> object:
    try:
        return json.loads(_json(value))
    except Exception:  # noqa: BLE001 - as above
        return plain(value)


def _parts(value: Any) -> Any:  # noqa: ANN401 - of any type
    if is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "model_dump"):
        value = value.model_dump()
    match value:
        case None | bool() | int() | str():
            return value
        case Mapping():
            return {str(name): _parts(one) for name, one in value.items()}
        case list() | tuple():
            return list(map(_parts, value))
        case float() | Decimal() | bytes() | date():
            return jsonable(value)
        case time():
            return value.isoformat()
        case UUID():
            return str(value)
        case Enum():
            return _parts(value.value)
        case _:
            return repr(value)


def _visible(text: str) -> str:
    return "".join(one if one.isprintable() else "�" for one in text)
