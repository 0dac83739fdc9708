"""Places in a MongoDB's stream of changes, as a capture's state keeps them; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .documents import key_of, value_of
from .positions import ClusterTime


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A place that lies behind all changes up to a time."""

    time: ClusterTime
    token: str | None = None
    """The resume token behind which the stream goes on; None: it begins behind the time."""
    event: str | None = None
    """The token of the last event before, which a server has as long as its log has not been shortened or replaced since."""

    @property
    def text(self) -> str:
        """The place as a state has it."""
        said = {**self.time._asdict(), "token": self.token, "event": self.event}
        return json.dumps(said, separators=(",", ":"))


def parse_place(text: str) -> StreamPlace:
    """The place that a state has."""
    said = json.loads(text)
    return StreamPlace(ClusterTime(said["sec"], said["ord"]), said["token"], said.get("event"))


def token_text(token: Mapping[str, Any]) -> str:
    """A resume token as text. Most have nothing but ``_data``; those of some ids also tell the types of the numbers in them."""
    return str(token["_data"]) if len(token) == 1 else key_of(token)


def token_of(text: str) -> Mapping[str, Any]:
    """The token that `token_text` made a text of."""
    found: Mapping[str, Any] = value_of(text) if text.startswith("{") else {"_data": text}
    return found
