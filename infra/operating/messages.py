"""Messages as JSON values. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...log import MessageView


def message_document(message: MessageView) -> dict[str, object]:
    found = {**message.stored(), "keys": list(message.keys), **body_fields(message.body)}
    for name in ("key", "headers", "value"):  # most messages have none of them
        del found[name]
    if message.key is not None:
        found |= key_fields(message.key)
    if message.headers:
        found["headers"] = header_list(message.headers)
    if message.value is not None:
        found["value"] = message.json()
    return found


def body_fields(body: bytes | None) -> dict[str, object]:
    """A body as JSON values, or as ``body_base64`` if it is no text."""
    if body is None:
        return {"body": None, "body_base64": False}
    try:
        return {"body": body.decode(), "body_base64": False}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_base64": True}


def key_fields(key: bytes | None) -> dict[str, object]:
    return {"key_base64": None if key is None else base64.b64encode(key).decode()}


def header_list(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, object]]:
    return [{"key": name, "value_base64": None if value is None else base64.b64encode(value).decode()} for name, value in headers]
