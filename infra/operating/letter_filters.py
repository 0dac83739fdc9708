"""The conditions on dead letters, for the command line and the console."""

from __future__ import annotations

LETTER_FILTERS = {
    "topic": "Only dead letters of messages of this topic.",
    "reason": "Only dead letters whose reason holds this text, in upper or lower case.",
    "message_group": "Only messages of this message group.",
    "key": "Only messages with this key.",
    "tags": "Only messages with one of these tags: 'paid || refunded'.",
    "message_id": "Only the dead letter of the message with this id.",
}
