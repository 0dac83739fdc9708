"""Places in a MongoDB's change stream, in a capture's state; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .documents import key_of, value_of
from .positions import ClusterTime


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A place after all changes up to a time."""

    time: ClusterTime
    token: str | None = None
    """The resume token to go on after; None: the time."""
    event: str | None = None
    """The token of the last event before: the server has it unless its log was shortened or replaced."""

    @property
    def text(self) -> str:
        fields = {**self.time._asdict(), "token": self.token, "event": self.event}
        return json.dumps(fields, separators=(",", ":"))


def parse_place(text: str) -> StreamPlace:
    fields = json.loads(text)
    return StreamPlace(ClusterTime(fields["sec"], fields["ord"]), fields["token"], fields.get("event"))


def token_text(token: Mapping[str, Any]) -> str:
    """A resume token as text. Most have only ``_data``; those of some ids also their numbers' types."""
    return str(token["_data"]) if len(token) == 1 else key_of(token)


def token_of(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = value_of(text) if text.startswith("{") else {"_data": text}
    return found
