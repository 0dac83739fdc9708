"""Events that are not applied, or not as they are, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..changes import Place
from ..events.conversion import exact_json, text_of
from ..events.sources import TableId, named

Action: TypeAlias = Literal["rejected", "null"]
"""Whether the event was not applied, or NULL took the place of one value."""


@dataclass(frozen=True, slots=True)
class RejectedEvent:
    """One event, or one value of an event."""

    place: Place
    source: TableId | None
    """None where the event does not name it."""
    action: Action
    reason: str
    time_us: int
    column: str = ""
    """Empty where it is the event."""
    key: str | None = None
    body: str | None = None
    """None where something of it is masked or left out."""


def key_text(key: Mapping[str, Any]) -> str | None:
    plain = {name: value if isinstance(value, str | int | None) else text_of(value) for name, value in key.items()}
    return exact_json(plain) if plain else None


def counted(events: Sequence[RejectedEvent], action: Action) -> dict[str, int]:
    """The events of one action by table; ``?``: an unknown one."""
    return dict(Counter("?" if event.source is None else named(event.source) for event in events if event.action == action))
