"""The audit topic of a lake: who did what by the console, when, and how it ended."""

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
"""The retention with which the first action makes the topic, of type NORMAL with one queue. It may be altered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One line of the audit topic. An action has two with the same id: it began, and it ended."""

    id: str
    at: datetime
    who: str
    role: str
    address: str
    """The address that the request came from."""
    action: str
    arguments: Mapping[str, str]
    state: Literal["began", "done", "failed"]
    outcome: str
    """What was done, or why not; while it runs, what its preview said."""

    def ended(self, at: datetime, outcome: str, *, failed: bool) -> AuditRecord:
        return replace(self, at=at.astimezone(UTC), state="failed" if failed else "done", outcome=outcome)


async def write(lake: Lake, record: AuditRecord) -> None:
    """Write a record, durably. The topic is made if it is missing."""
    with suppress(TopicExists):  # with other settings: the operators altered its retention
        await lake.create_topic(AUDIT_TOPIC, TopicSettings(queues=1, retention=KEPT))
    producer = await lake.producer(AUDIT_TOPIC, options=ProducerOptions(linger=timedelta(0)))
    body = json.dumps(json_value(record), ensure_ascii=False).encode("utf-8", "backslashreplace")
    try:
        await producer.send(Message(body, tag=record.action, keys=[record.id]))
    finally:
        await producer.close()
