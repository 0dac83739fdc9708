"""The audit topic of a lake: the console's actions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from ....aio import Lake
from ....log import Message, ProducerOptions, TopicSettings
from ....log.errors import TopicExists
from ....log.paths import AUDIT_TOPIC
from ...json_values import json_value

KEPT = timedelta(days=365)
"""The first retention of the topic, which may be altered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An action's beginning or end, with the same id."""

    id: str
    at: datetime
    who: str
    role: str
    address: str
    action: str
    arguments: Mapping[str, str]
    state: Literal["began", "done", "failed"]
    outcome: str
    """The outcome or refusal; at first the preview's summary."""

    def ended(self, at: datetime, outcome: str, *, failed: bool) -> AuditRecord:
        return replace(self, at=at.astimezone(UTC), state="failed" if failed else "done", outcome=outcome)


async def write(lake: Lake, record: AuditRecord) -> None:
    """Write a record, durably, and make the topic if missing."""
    with suppress(TopicExists):  # with other settings: the operators altered its retention
        await lake.create_topic(AUDIT_TOPIC, TopicSettings(queues=1, retention=KEPT))
    producer = await lake.producer(AUDIT_TOPIC, options=ProducerOptions(linger=timedelta(0)))
    body = json.dumps(json_value(record), ensure_ascii=False).encode("utf-8", "backslashreplace")
    try:
        await producer.send(Message(body, tag=record.action, keys=[record.id]))
    finally:
        await producer.close()
