"""Events that are not applied, or not as they are, and are kept aside with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..changes import Place
from ..events.sources import TableId, named
from ..events.types import exact_json, text_of

Action: TypeAlias = Literal["rejected", "null"]
"""What became of the event: it was not applied, or NULL took the place of one value."""


@dataclass(frozen=True, slots=True)
class RejectedEvent:
    """One event, or one value of an event."""

    place: Place
    source: TableId | None
    """The table; None where the event does not say."""
    action: Action
    reason: str
    time_us: int
    """When the event was stored."""
    column: str = ""
    """The column of the value; empty where it is the event."""
    key: str | None = None
    """The row's key as JSON, where the event says it."""
    body: str | None = None
    """The event as text, where nothing of it is masked or left out."""


def key_text(key: Mapping[str, Any]) -> str | None:
    """A key as JSON text; None for an event without one."""
    plain = {name: value if isinstance(value, str | int | None) else text_of(value) for name, value in key.items()}
    return exact_json(plain) if plain else None


def counted(events: Sequence[RejectedEvent], action: Action) -> dict[str, int]:
    """How many there are of one action, by table; ``?`` where events do not say theirs."""
    return dict(Counter("?" if one.source is None else named(one.source) for one in events if one.action == action))
