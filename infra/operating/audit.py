"""The audit topic of a lake: the console's actions, a line where one begins and one where it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ...log import Message, MessageView, ProducerOptions, TopicSettings
from ...log.errors import TopicExists
from ...log.paths import AUDIT_TOPIC
from ..json_values import json_value

if TYPE_CHECKING:
    from ...aio import Lake

KEPT = timedelta(days=365)
"""The first retention of the topic, which may be altered."""
ActionState: TypeAlias = Literal["began", "done", "failed"]
STATES: tuple[ActionState, ...] = get_args(ActionState)


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
    state: ActionState
    outcome: str
    """The outcome or refusal; at first the preview's summary."""

    def ended(self, at: datetime, outcome: str, *, failed: bool) -> AuditRecord:
        return replace(self, at=at.astimezone(UTC), state="failed" if failed else "done", outcome=outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedAction:
    """An action by its lines in the audit topic."""

    last: AuditRecord
    began: datetime | None
    """None: its first line is not among these."""
    meant: str | None
    """What the preview had said."""
    offset: int
    """The place of its last line."""

    @property
    def ended(self) -> datetime | None:
        """None: no end is written, as it runs still or its console was killed."""
        return None if self.last.state == "began" else self.last.at


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


def record_of(body: bytes | None) -> AuditRecord | None:
    """The inverse of `write`. None: the body is none of a console's. Pure."""
    try:
        found = json.loads(body or b"")
        at = datetime.fromisoformat(found["at"])
        texts = {name: found[name] for name in ("id", "who", "role", "address", "action", "outcome")}
        arguments, state = found["arguments"], found["state"]
        values = [*texts.values(), *arguments.keys(), *arguments.values()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if at.tzinfo is None or state not in STATES or not all(isinstance(one, str) for one in values):
        return None
    return AuditRecord(at=at.astimezone(UTC), arguments=arguments, state=state, **texts)


def audited_actions(messages: Iterable[MessageView]) -> tuple[list[AuditedAction], int]:
    """The actions of the topic's messages, the newest first, and the number of messages that are none of a console's. Pure."""
    found: dict[str, AuditedAction] = {}
    strange = 0
    for one in messages:
        record = record_of(one.body)
        if record is None:
            strange += 1
            continue
        known = found.get(record.id)
        began, meant = (record.at, record.outcome) if record.state == "began" else (None, None)
        if known is not None:
            began, meant = known.began or began, known.meant or meant
        found[record.id] = AuditedAction(last=record, began=began, meant=meant, offset=one.offset)
    return sorted(found.values(), key=lambda one: -one.offset), strange
