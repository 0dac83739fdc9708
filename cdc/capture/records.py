"""Changes as messages of the topic; pure.

The body is ``{"key": {schema, payload}, "value": {schema, payload}}``, with only the schemas' parts for the columns' types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from .row_keys import message_group_of

_encode = msgspec.json.Encoder().encode


class RecordSource(msgspec.Struct, gc=False):
    """A record's place in the source."""

    db: str | None = None
    table: str | None = None
    file: str | None = None
    pos: int = 0
    row: int | None = None
    snapshot: str | None = None


class ChangeRecord(NamedTuple):
    """A change of a row, or a truncate, as a message."""

    sequence: int
    body: bytes
    message_group: str
    tag: str | None
    keys: tuple[str, ...]
    op: str
    table: str
    key: Mapping[str, Any] | None
    source: RecordSource


@dataclass(frozen=True, slots=True)
class ConnectSchemas:
    """Connect's schemas of a table's keys and rows, as JSON."""

    key: bytes
    value: bytes

    def body(self, key: bytes | None, value: bytes) -> bytes:
        """The body of a key and an envelope. A truncate has no key: its schema would add nothing to the rows'."""
        if key is None:
            return b"".join((b'{"key":null,"value":{"schema":', self.value, b',"payload":', value, b"}}"))
        parts = (b'{"key":{"schema":', self.key, b',"payload":', key, b'},"value":{"schema":', self.value, b',"payload":', value)
        return b"".join((*parts, b"}}"))


def heartbeat(name: str, sequence: int, now_ms: int) -> ChangeRecord:
    """A message without a change, as Debezium's heartbeats."""
    body = _encode({"key": {"serverName": name}, "value": {"ts_ms": now_ms}})
    return ChangeRecord(sequence, body, message_group_of("heartbeat", name, None), None, (), "heartbeat", "", None, RecordSource())
