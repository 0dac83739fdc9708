"""A consumer's log of failed attempts."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from ...log.escapes import escaped
from ..handlers.missing_result import MissingResultLog
from ..schedule.step import FailedAttempt

log = logging.getLogger("penstock.consumers")


class FailureLog:
    """The failures of one consumer."""

    def __init__(self, group: str, listener: object) -> None:
        self._group = group
        self._no_answers = MissingResultLog(
            group, listener, then="the message runs again, and at the end of its attempts it is given up"
        )

    def note(self, topic: str, queue: int, failed: FailedAttempt) -> None:
        self._no_answers.note(failed.reason)
        message = failed.message
        log.warning(
            "group %s, %s queue %d: offset %d (message %s) failed at attempt %d, %s: %s",
            self._group,
            topic,
            queue,
            message.offset,
            message.message_id,
            message.delivery_attempt,
            _next(failed),
            escaped(failed.reason),
            extra={
                "fields": {
                    "group": self._group,
                    "topic": topic,
                    "queue": queue,
                    "offset": message.offset,
                    "message_id": message.message_id,
                    "message_group": message.message_group,
                    "attempt": message.delivery_attempt,
                    "next_ms": failed.due_ms,
                    "reason": failed.reason,
                }
            },
        )


def _next(failed: FailedAttempt) -> str:
    if failed.batch > 1:
        return f"or one of the {failed.batch - 1} behind it in its batch; they run again at once, in smaller batches"
    if failed.due_ms is None:
        return "and is given up"
    due = datetime.fromtimestamp(failed.due_ms / 1000, UTC)
    return f"next at {due.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"
