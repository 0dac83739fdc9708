"""One search for whatever an operator has in hand: a name of what the lake has, or an id to look for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ....coordinator.transactions.ids import member_of
from ....log.errors import InvalidArgument
from ....log.paths import dead_letter_group
from ..lakes.source import LakeSnapshot
from .page import PageContext, PageDefinition, PageRequest, QueryParameter
from .rows import stored_by_topic

PLACES_MAX = 20
"""The most places of a kind."""
TOPICS_MAX = 12
"""The most topics in which a message group or key is offered to be looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlace:
    """A page that a text leads to."""

    kind: str
    name: str
    page: str
    values: Mapping[str, str]
    """The names in its URL."""
    is_exact: bool = False
    """Whether the text is its whole name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPage:
    """The content of the page. It knows what a look at the lake knows, and begins no search by itself."""

    at: datetime
    text: str
    places: tuple[FoundPlace, ...]
    """What has the text in its name, the exact ones first."""
    left_out: int
    searches: tuple[FoundPlace, ...]
    """Where the text can be looked for as an id, a message group or a key."""


async def gather(context: PageContext, request: PageRequest) -> FindPage:
    return found_in(await context.source.look(), (request.text("q") or "").strip())


def found_in(looked: LakeSnapshot, text: str) -> FindPage:
    if not text:
        return FindPage(at=looked.at, text="", places=(), left_out=0, searches=())
    places: list[FoundPlace] = []
    left_out = 0
    for kind in (_topics(looked), _groups(looked), _workers(looked)):
        found = sorted(_named(kind, text), key=lambda one: (not one.is_exact, len(one.name), one.name))
        places += found[:PLACES_MAX]
        left_out += len(found[PLACES_MAX:])
    places.sort(key=lambda one: not one.is_exact)
    return FindPage(at=looked.at, text=text, places=tuple(places), left_out=left_out, searches=tuple(_searches(looked, text)))


def _named(places: Iterator[tuple[FoundPlace, Sequence[str]]], text: str) -> Iterator[FoundPlace]:
    wanted = text.lower()
    for place, names in places:
        if any(wanted in name.lower() for name in names):
            yield FoundPlace(kind=place.kind, name=place.name, page=place.page, values=place.values, is_exact=text in names)


def _topics(looked: LakeSnapshot) -> Iterator[tuple[FoundPlace, Sequence[str]]]:
    for topic in looked.topics:
        group = dead_letter_group(topic)
        if group is None:
            yield FoundPlace(kind="topic", name=topic, page="topic", values={"topic": topic}), (topic,)
        else:
            yield FoundPlace(kind="dead letters", name=group, page="letters", values={"group": group}), (topic, group)


def _groups(looked: LakeSnapshot) -> Iterator[tuple[FoundPlace, Sequence[str]]]:
    for group in sorted({one.group for one in looked.seen.groups}):
        yield FoundPlace(kind="consumer group", name=group, page="group", values={"group": group}), (group,)


def _workers(looked: LakeSnapshot) -> Iterator[tuple[FoundPlace, Sequence[str]]]:
    for one in looked.seen.workers:
        label = "" if one.heartbeat is None else one.heartbeat.label
        name = f"{label} {one.worker}".strip()
        yield FoundPlace(kind="worker", name=name, page="workers", values={"filter": one.worker}), (one.worker, label)


def _searches(looked: LakeSnapshot, text: str) -> Iterator[FoundPlace]:
    yield FoundPlace(kind="message id", name="in all topics", page="message", values={"message_id": text})
    if _is_transaction(text):
        yield FoundPlace(kind="transaction", name=text, page="transactions", values={"transaction": text})
    stored = stored_by_topic(looked.seen)
    ordinary = [topic for topic in looked.topics if dead_letter_group(topic) is None]
    for topic in sorted(ordinary, key=lambda one: (-stored.get(one, 0), one))[:TOPICS_MAX]:
        yield FoundPlace(kind="message group", name=f"in {topic}", page="messages", values={"topic": topic, "message_group": text})
        yield FoundPlace(kind="key", name=f"in {topic}", page="messages", values={"topic": topic, "key": text})


def _is_transaction(text: str) -> bool:
    try:
        member_of(text)
    except InvalidArgument:
        return False
    return True


PAGE = PageDefinition(
    name="find",
    path="/find",
    title="Find",
    about="The topics, consumer groups and workers with a text in their names, and the pages that look for it as an id, message group or key.",
    shows=FindPage,
    gather=gather,
    command=lambda request: ["topic", "list"] if not request.text("q") else ["trace", request.text("q") or ""],
    parameters=(QueryParameter(name="q", help="A name or a part of one, an id, a message group or a key."),),
)
