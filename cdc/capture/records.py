"""Changes on their way into the topic, as messages; pure.

The body is ``{"key": {schema, payload}, "value": {schema, payload}}``. Of the schemas only what says the columns' types is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from .row_keys import message_group_of

_encode = msgspec.json.Encoder().encode


class RecordSource(msgspec.Struct, gc=False):
    """Where in the source a record is of."""

    db: str | None = None
    table: str | None = None
    file: str | None = None
    pos: int = 0
    row: int | None = None
    snapshot: str | None = None


class ChangeRecord(NamedTuple):
    """A change of a row, or a truncate, on its way into the topic."""

    sequence: int
    body: bytes
    message_group: str
    tag: str | None
    keys: tuple[str, ...]
    op: str
    table: str
    key: Mapping[str, Any] | None
    """Values by the columns' names; None of a truncate."""
    source: RecordSource


@dataclass(frozen=True, slots=True)
class ConnectSchemas:
    """Connect's schemas of the keys and rows of a table, as JSON."""

    key: bytes
    value: bytes

    def body(self, key: bytes | None, value: bytes) -> bytes:
        """The message of a key and an envelope. A truncate has no key: its schema would say nothing that the rows' does not."""
        if key is None:
            return b"".join((b'{"key":null,"value":{"schema":', self.value, b',"payload":', value, b"}}"))
        parts = (b'{"key":{"schema":', self.key, b',"payload":', key, b'},"value":{"schema":', self.value, b',"payload":', value)
        return b"".join((*parts, b"}}"))


def heartbeat(name: str, sequence: int, now_ms: int) -> ChangeRecord:
    """The message that tells of nothing but the stream itself, as Debezium's heartbeats do."""
    body = _encode({"key": {"serverName": name}, "value": {"ts_ms": now_ms}})
    return ChangeRecord(sequence, body, message_group_of("heartbeat", name, None), None, (), "heartbeat", "", None, RecordSource())
