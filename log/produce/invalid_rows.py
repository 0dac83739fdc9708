"""Rows that do not fit their topic's schema, on their way to the topic beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Protocol
from uuid import UUID

from ..limits import MIB
from ..message.message import Message
from ..schema.values import BadValue
from .receipts import Receipt

INVALID_SUFFIX = "-invalid"
"""The ending of the name of the topic that takes them."""
REASON, FIELD, TOPIC, MESSAGE_ID = "penstock-reason", "penstock-field", "penstock-topic", "penstock-message-id"
"""The properties of such a message: why the row does not fit, where, and the message as it was sent."""
_REASON_CHARS_MAX = 1_000
_ROW_BYTES_MAX = 4 * MIB - 1


class Sender(Protocol):
    """What sends them."""

    def send(self, message: Message, *, queue: int | None = None, sequence: int | None = None) -> Receipt: ...


async def divert(
    sender: Sender,
    topic: str,
    bad: Mapping[int, BadValue],
    rows: Mapping[int, object],
    ids: Mapping[int, str],
    sequences: Mapping[int, int],
) -> None:
    """Send bad rows to the topic beside, and return when they are durable there. All are by place.

    With sequences a row that was sent there before, by an earlier instance of the producer's name, is not sent again.
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
    """A row of whatever kind as JSON, as far as JSON can say it; what it cannot is there as Python shows it."""
    return json.dumps(_parts(row), default=lambda value: _parts(value, otherwise=repr), ensure_ascii=False, skipkeys=True)


def _parts(row: object, *, otherwise: object = None) -> object:
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    if isinstance(row, Mapping):
        return {str(name): value for name, value in row.items()}
    if isinstance(row, tuple) and hasattr(row, "_asdict"):
        return row._asdict()
    if hasattr(row, "model_dump"):
        return row.model_dump()
    if isinstance(row, date | time):  # a datetime is a date too
        return row.isoformat()
    if isinstance(row, Decimal | UUID):
        return str(row)
    if isinstance(row, Enum):
        return row.value
    return repr(row) if otherwise is not None else row


def _visible(text: str) -> str:
    return "".join(one if one.isprintable() else "�" for one in text)
