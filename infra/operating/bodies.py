"""Bodies of messages, for people and programs. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...log import MessageView

_DEPTH_MAX = 20
_GROWTH_MAX = 8
"""The layout's limit of growth."""


class BodyKind(StrEnum):
    """The kind of a body."""

    JSON = "JSON"
    TEXT = "text"
    BYTES = "bytes"
    EMPTY = "empty"
    TOMBSTONE = "no body"


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyExcerpt:
    """A body, or the beginning of a large one."""

    kind: BodyKind
    size_bytes: int
    text: str
    is_whole: bool

    @property
    def pretty(self) -> str:
        return laid_out(self.text) if self.kind is BodyKind.JSON else self.text


def body_of(content: bytes | None, *, most: int | None) -> BodyExcerpt:
    if content is None:
        return BodyExcerpt(kind=BodyKind.TOMBSTONE, size_bytes=0, text="", is_whole=True)
    text, is_text, is_whole = body_preview(content, most=4 * len(content) if most is None else most)
    if not is_text:
        kind = BodyKind.BYTES
    else:
        kind = BodyKind.EMPTY if not content else BodyKind.JSON if is_whole and _is_document(text) else BodyKind.TEXT
    return BodyExcerpt(kind=kind, size_bytes=len(content), text=text, is_whole=is_whole)


def body_of_message(message: MessageView, *, most: int | None) -> BodyExcerpt:
    """The first ``most`` bytes of a message's body. A tombstone has none."""
    is_tombstone = message.body is None and message.value is None
    return body_of(None if is_tombstone else message.content, most=most)


def body_preview(content: bytes, *, most: int) -> tuple[str, bool, bool]:
    """The first ``most`` bytes as text, whether they are text, and whether that is all. Other bytes, a quarter as many, are in hexadecimal digits."""
    head, is_whole = content[:most], len(content) <= most
    try:
        return _decoded(head, is_cut=not is_whole), True, is_whole
    except UnicodeDecodeError:
        shown = head[: most // 4]
        lines = (shown[at : at + 32].hex(" ") for at in range(0, len(shown), 32))
        return "\n".join(lines), False, len(content) <= most // 4


def _decoded(head: bytes, *, is_cut: bool) -> str:
    """The text of bytes, of which a cut may leave out the last character. Raises `UnicodeDecodeError`."""
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start >= len(head) - 3:
            return head[: error.start].decode()
        raise


def _is_document(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text, parse_int=str)  # integers of any length
    except (ValueError, RecursionError):
        return False
    return True


def laid_out(text: str) -> str:
    """A JSON document in lines, with digits and repeated names as they are."""
    parts: list[str] = []
    depth = length = at = 0
    while at < len(text):
        char = text[at]
        step = 1
        if char == '"':
            step = _string_chars(text, at)
            part = text[at : at + step]
        elif char in "{[":
            closed = _next_seen(text, at + 1)
            if closed < len(text) and text[closed] in "}]":
                part, step = char + text[closed], closed + 1 - at
            else:
                depth += 1
                part = char + _line(depth)
        elif char in "}]":
            depth -= 1
            part = _line(depth) + char
        elif char == ",":
            part = char + _line(depth)
        else:
            part = ": " if char == ":" else "" if char.isspace() else char
        parts.append(part)
        length += len(part)
        if length > max(1000, _GROWTH_MAX * len(text)):
            return text
        at += step
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEPTH_MAX)


def _next_seen(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _string_chars(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1 - start
