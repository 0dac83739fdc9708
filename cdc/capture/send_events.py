"""Sends batches of change events; a refusal names the row's table and key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from ...log.errors import CallError

if TYPE_CHECKING:
    import pyarrow as pa

    from ...log.produce.producer import Producer
    from ...log.produce.receipts import BatchReceipt

_ROW = re.compile(r"row ([0-9]+)")
_KEY_CHARS_MAX = 200


def send_events(producer: Producer, batch: pa.Table, *, through: int | None = None) -> BatchReceipt:
    """Raises as `Producer.send_batch` does. A refusal names the row's table."""
    try:
        return producer.send_batch(batch, through=through)
    except CallError as error:
        if (found := _ROW.fullmatch(error.object or "")) is not None:
            error.object = _named(batch, int(found[1]))
        raise


def _named(batch: pa.Table, row: int) -> str:
    """A typed event has no body: its message group has table and key, perhaps cut."""
    group = str(batch["message_group"][row].as_py())
    if "body" not in batch.column_names:
        return group
    event: dict[str, Any] = msgspec.json.decode(batch["body"][row].as_py())
    source = event["value"].get("source", {})
    table = ".".join(str(source[part]) for part in ("schema", "table") if source.get(part)) or group
    if source.get("schema") is None and source.get("db"):
        table = f"{source['db']}.{table}"
    key = msgspec.json.encode(event["key"]).decode()
    return f"{table}, key {key if len(key) <= _KEY_CHARS_MAX else key[:_KEY_CHARS_MAX] + '…'}"
