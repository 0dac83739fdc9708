"""Specs of a message's parts: the name of a field (``customer_id``, ``customer.id`` inside a nested one) or a format string with fields in braces
(``{table}-{id}``).
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ..log.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """One message to produce."""

    body: bytes
    message_group: str | None = None
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    sequence: int | None = None
    delivery_timestamp: datetime | None = None
    delay: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLabels:
    """A spec for each part of a message. Raises `InvalidArgument`."""

    message_group: str | None = None
    tag: str | None = None
    keys: Sequence[str] = ()
    """One spec a key; a list in a field gives several. Empty ones are left out."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Specs by property name; empty values are left out."""
    body: str | None = None
    """The field whose text is the body; default the whole record, as JSON."""
    sequence: str | None = None
    """The field with an integer that increases along the input."""
    deliver_at: datetime | str | None = None
    """The delivery time of all messages, or the field with each one's: an ISO time with a zone."""
    delay: timedelta | None = None
    """Counted from when each message is sent."""

    def __post_init__(self) -> None:
        specs = [self.message_group, self.tag, *self.keys, *self.properties.values(), self.body, self.sequence, self.deliver_at]
        for spec in specs:
            if isinstance(spec, str) and "{" in spec:
                _parts(spec)

    def record(self, fields: Mapping[str, Any], whole: bytes) -> InputRecord:
        """The message of a record whose original form is ``whole``. Raises `InvalidArgument`."""
        body = whole
        if self.body is not None:
            value = _value(self.body, fields)
            body = value if isinstance(value, bytes) else text_of(value).encode()
        texts = {name: _text(spec, fields) for name, spec in self.properties.items()}
        return InputRecord(
            body=body,
            message_group=self.group(fields),
            tag=_text(self.tag, fields),
            keys=tuple(key for spec in self.keys for key in _texts(spec, fields)),
            properties={name: text for name, text in texts.items() if text is not None},
            sequence=self._sequence(fields),
            delivery_timestamp=self._delivery(fields),
            delay=self.delay,
        )

    def group(self, fields: Mapping[str, Any]) -> str | None:
        return _text(self.message_group, fields)

    def _delivery(self, fields: Mapping[str, Any]) -> datetime | None:
        if not isinstance(self.deliver_at, str):
            return self.deliver_at
        if "{" not in self.deliver_at and isinstance(value := _value(self.deliver_at, fields), datetime):
            return value
        text = _text(self.deliver_at, fields)
        try:
            return None if text is None else datetime.fromisoformat(text)
        except ValueError:
            raise InvalidArgument(
                f"the delivery time, {self.deliver_at}, is no time", expected="such as 2026-01-31T12:00:00Z", observed=text
            ) from None

    def _sequence(self, fields: Mapping[str, Any]) -> int | None:
        if self.sequence is None:
            return None
        text = _text(self.sequence, fields)
        try:
            return int(text or "")
        except ValueError:
            raise InvalidArgument(
                f"the sequence, {self.sequence}, is no integer", expected="an integer", observed=text or "nothing"
            ) from None


def text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    return value.decode() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False, default=str)


def _text(spec: str | None, fields: Mapping[str, Any]) -> str | None:
    """None for a field that is null or empty, which is an error inside a format string."""
    if spec is None:
        return None
    if "{" not in spec:
        value = _value(spec, fields)
        return None if value is None or value == "" else text_of(value)
    text = ""
    for literal, name in _parts(spec):
        text += literal
        if name is not None:
            value = _value(name, fields)
            if value is None or value == "":
                raise InvalidArgument(f"{spec} needs the field {name}, which is empty here", expected=name, observed="nothing")
            text += text_of(value)
    return text


def _texts(spec: str, fields: Mapping[str, Any]) -> list[str]:
    if "{" not in spec and isinstance(values := _value(spec, fields), list):
        return [text_of(value) for value in values if value is not None and value != ""]
    text = _text(spec, fields)
    return [] if text is None else [text]


def _value(name: str, fields: Mapping[str, Any]) -> object:
    if name in fields:
        return fields[name]
    value: object = fields
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise InvalidArgument(f"there is no field {name}", expected=name, observed="fields " + ", ".join(list(fields)[:20]))
        value = value[part]
    return value


def _parts(spec: str) -> list[tuple[str, str | None]]:
    try:
        parts = list(string.Formatter().parse(spec))
    except ValueError as error:
        raise InvalidArgument(f"malformed format string {spec}", observed=str(error)) from error
    if any(name == "" or form or conversion for _, name, form, conversion in parts):
        raise InvalidArgument(
            f"malformed format string {spec}", expected="fields as {name}", hint="Write {{ and }} for braces themselves"
        )
    return [(literal, name) for literal, name, _, _ in parts]
