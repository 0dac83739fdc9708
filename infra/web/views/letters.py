"""The dead letters of one consumer group, the newest first, a bounded number at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....consumers.dead_letters.redrive_cell import RedriveCell
from ....consumers.dead_letters.writer import QUEUE, dead_letter_topic, no_dead_letters
from ....coordinator import GroupNotFound
from ....coordinator.queues.cell import QueueCell
from ....log import MessageView, TopicNotFound, views
from ....log.read.reader import Reader
from ....log.topic.topics import Topic
from ...console.output import json_line
from ...operating.letter_filters import LETTER_FILTERS
from ...operating.letters import NO_DEAD_LETTER, LetterRow, condition, letter_document, letter_row
from ..faults import PagePart
from .page import Breadcrumb, Download, DownloadContent, PageContext, PageDefinition, PageRequest, QueryParameter

LOOKED = 500
SHOWN = 50
EXPORTED_MAX = 100_000
TALLIES = 10
AGES = (
    ("the last hour", timedelta(hours=1)),
    ("the last day", timedelta(days=1)),
    ("the last week", timedelta(weeks=1)),
)
OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTally:
    """A count of similar letters."""

    name: str
    letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterMatches:
    """The matching letters."""

    kept: int
    end: int
    looked: int
    """Searched letters, the newest before the chosen offset."""
    unreadable: int
    """Unreadable ones of them."""
    matching: int
    by_reason: tuple[LetterTally, ...]
    by_origin: tuple[LetterTally, ...]
    by_age: tuple[LetterTally, ...]
    rows: tuple[LetterRow, ...]
    older: int | None
    """The offset before which the next page begins; None: the last page."""


NOTHING = LetterMatches(
    kept=0, end=0, looked=0, unreadable=0, matching=0, by_reason=(), by_origin=(), by_age=(), rows=(), older=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersPage:
    """What the page shows."""

    group: str
    found: PagePart[LetterMatches]


FILTERS = tuple(QueryParameter(name=name, help=text) for name, text in LETTER_FILTERS.items())
BEFORE = QueryParameter(name="before", help="Only letters before this offset; 0: from the newest on.", kind=int, default=0, least=0)


async def letters_topic(lake: Lake, group: str) -> Topic | None:
    with suppress(TopicNotFound):
        return await lake.topic(dead_letter_topic(group))
    return None


def wanted_of(asked: PageRequest) -> Callable[[MessageView], bool] | None:
    return condition(**{one.name: asked.text(one.name) for one in FILTERS})  # type: ignore[arg-type] # by name


async def gather(scene: PageContext, asked: PageRequest) -> LettersPage:
    wanted = wanted_of(asked)

    async def found(lake: Lake) -> LetterMatches:
        topic = await letters_topic(lake, asked["group"])
        if topic is None:
            await lake.coordination.groups.get(asked["group"])
            return NOTHING
        return await _found(scene, lake, asked["group"], topic, wanted, before=asked.number("before"))

    return LettersPage(group=asked["group"], found=await scene.part(found, fatal=(GroupNotFound,)))


async def _found(
    scene: PageContext, lake: Lake, group: str, topic: Topic, wanted: Callable[[MessageView], bool] | None, *, before: int
) -> LetterMatches:
    reader = Reader(topic)
    earliest, following = (await reader.offsets())[QUEUE]
    end = min(before or following, following)
    start = max(earliest, end - LOOKED)
    redriven = await redriven_cell(lake, group, topic.life)
    rows: list[LetterRow] = []
    if start < end:
        async for batch in reader.read(queue=QUEUE, start=start, end=end, damaged="skip"):
            rows += [
                letter_row(one, redrive_of(one.offset, redriven))
                for one in views(reader.topic, batch)
                if wanted is None or wanted(one)
            ]
    rows.reverse()
    shown = rows[:SHOWN]
    older = shown[-1].offset if len(shown) < len(rows) else start if start > earliest else None
    return LetterMatches(
        kept=following - earliest,
        end=following,
        looked=max(0, end - start),
        unreadable=sum(one.messages for one in reader.left_out),
        matching=len(rows),
        by_reason=tallies(one.reason for one in rows),
        by_origin=tallies(NO_DEAD_LETTER if one.origin is None else one.origin.topic for one in rows),
        by_age=by_age([one.stored for one in rows], scene.now),
        rows=tuple(shown),
        older=older,
    )


async def redriven_cell(lake: Lake, group: str, life: int) -> QueueCell:
    cell = RedriveCell(lake, group, life)
    try:
        await cell.read()
        return cell.cell
    finally:
        await cell.close()


def redrive_of(offset: int, redriven: QueueCell) -> str:
    if offset in redriven.dead_letters.assigned:
        return "on its way"
    return "sent" if offset in redriven.settled else "no"


def tallies(names: Iterable[str]) -> tuple[LetterTally, ...]:
    return tuple(LetterTally(name=name, letters=count) for name, count in Counter(names).most_common(TALLIES))


def by_age(times: Sequence[datetime], now: datetime) -> tuple[LetterTally, ...]:
    counts = Counter(next((name for name, age in AGES if now - time < age), OLDER) for time in times)
    return tuple(LetterTally(name=name, letters=counts[name]) for name in [*(name for name, _ in AGES), OLDER] if counts[name])


async def export_letters(scene: PageContext, asked: PageRequest) -> DownloadContent:
    """The matching letters as JSON lines, the oldest first. Raises `TopicNotFound`."""
    group, wanted = asked["group"], wanted_of(asked)
    before = asked.number("before")

    async def open_it(lake: Lake) -> Reader:
        topic = await letters_topic(lake, group)
        if topic is None:
            raise no_dead_letters(group)
        return Reader(topic)

    reader = await scene.using(open_it)

    async def lines() -> AsyncIterator[bytes]:
        left = EXPORTED_MAX
        async with aclosing(reader.messages(queue=QUEUE, end=before or "latest", damaged="skip")) as letters:
            async for letter in letters:
                if wanted is None or wanted(letter):
                    yield json_line(letter_document(letter)).encode()
                    left -= 1
                    if not left:
                        return

    return DownloadContent(f"dead-letters-of-{group}.jsonl", lines())


def words(command: str, group: str, given: dict[str, str | None]) -> list[str]:
    """A command's words for these letters."""
    options = {"message_id": "id", "tags": "tag"}
    found = ["dlq", command, group]
    for name, value in given.items():
        found += [] if value is None else [f"--{options.get(name, name).replace('_', '-')}", value]
    return found


PAGE = PageDefinition(
    name="letters",
    path="/dead-letters/{group}",
    title="Dead letters of {group}",
    about="The dead letters of a group by reason, origin and age: the newest 500 before an offset, 50 of them in full.",
    shows=LettersPage,
    gather=gather,
    answer=lambda shown: shown.found,
    command=lambda asked: words("read", asked["group"], {one.name: asked.text(one.name) for one in FILTERS}),
    parameters=(*FILTERS, BEFORE),
    crumbs=lambda asked: [Breadcrumb("Dead letters", "dead_letters")],
)

EXPORT = Download(
    name="letters_export",
    path="/dead-letters/{group}/export",
    about="The dead letters of a group that match as JSON lines, at most 100,000.",
    gather=export_letters,
    parameters=(*FILTERS, BEFORE),
)
