"""A gateway's clients as its entry in the list tells of them: alike ones together, in bounded room. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

ROOM_BYTES: Final = 1000
"""The most bytes of JSON for the clients of one gateway: all gateways write the list each 10 s."""
_CHARS_MAX: Final = 60
_TOPICS_MAX: Final = 3


class AlikeClients(Struct, frozen=True, order=True):
    """Some clients of a gateway that say the same of themselves. Nothing of it is proved but the principal."""

    kind: str
    """Such as ``PUSH_CONSUMER``; ``CONNECTION`` of Kafka's clients."""
    language: str = ""
    """The language, or the name of the library."""
    version: str = ""
    group: str = ""
    """The consumer group."""
    topics: tuple[str, ...] = ()
    """The first topics that it sends to or takes from."""
    principal: str = ""
    count: int = 1


def alike(clients: Iterable[AlikeClients]) -> tuple[AlikeClients, ...]:
    """Clients counted, the most frequent first, as many rows as there is room for."""
    counts = Counter(map(_plain, clients))
    found: list[AlikeClients] = []
    left = ROOM_BYTES
    for one, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        row = msgspec.structs.replace(one, count=count)
        left -= len(msgspec.json.encode(row)) + 1
        if left < 0:
            break
        found.append(row)
    return tuple(found)


def _plain(one: AlikeClients) -> AlikeClients:
    """The same with texts that are short, and of characters that are seen."""
    return AlikeClients(
        kind=_text(one.kind),
        language=_text(one.language),
        version=_text(one.version),
        group=_text(one.group),
        topics=tuple(map(_text, _first(one.topics))),
        principal=_text(one.principal),
    )


def _first(topics: Sequence[str]) -> Sequence[str]:
    return topics if len(topics) <= _TOPICS_MAX else [*topics[: _TOPICS_MAX - 1], f"and {len(topics) - _TOPICS_MAX + 1} more"]


def _text(stated: str) -> str:
    seen = "".join(char if char.isprintable() else "·" for char in stated[: _CHARS_MAX + 1])
    return seen if len(seen) <= _CHARS_MAX else f"{seen[: _CHARS_MAX - 1]}…"
