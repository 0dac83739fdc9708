"""The message of a capture that one of its tables is not captured any more.

It has Debezium's form of an application's message (``op`` is ``m``), which other readers pass over. Later events of the table, beginning
with a truncate, take it back.
"""

from __future__ import annotations

STOPPED = "penstock.stopped"
"""The prefix of the message. Its content is the reason."""


def stop_reason(event: object) -> str | None:
    """The reason, if an event is such a message."""
    value = event.get("value", event) if isinstance(event, dict) else None
    message = value.get("message") if isinstance(value, dict) else None
    if not isinstance(message, dict) or message.get("prefix") != STOPPED:
        return None
    return str(message.get("content"))
