"""The message of a capture that one of its tables is not captured any more: what the topic has of it is not what the source has.

It has Debezium's form of a message of an application (``op`` is ``m``), so that whoever does not know it passes over it. What a capture sends
of the table later, beginning with a truncate, takes it back.
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
