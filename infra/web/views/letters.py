"""The dead letters of one consumer group, the newest first, a bounded number at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....consumers.dead_letters.writer import QUEUE
from ....coordinator import GroupNotFound
from ....log import MessageView, TopicNotFound
from ....log.read.reader import Reader
from ...operating.letter_filters import LETTER_FILTERS
from ...operating.letters import NO_DEAD_LETTER, DeadLetterReader, StoredLetter, condition, letter_document, letter_of
from ...terminal.output import json_line
from ..faults import PagePart
from .page import Breadcrumb, Download, DownloadContent, PageContext, PageDefinition, PageRequest, QueryParameter

LOOKED = 500
SHOWN = 50
BODY_BYTES = 200
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
    rows: tuple[StoredLetter, ...]
    older: int | None
    """The offset before which the next page begins; None: the last page."""


NOTHING = LetterMatches(
    kept=0, end=0, looked=0, unreadable=0, matching=0, by_reason=(), by_origin=(), by_age=(), rows=(), older=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersPage:
    """The content of the page."""

    group: str
    found: PagePart[LetterMatches]


FILTERS = tuple(QueryParameter(name=name, help=text) for name, text in LETTER_FILTERS.items())
BEFORE = QueryParameter(name="before", help="Only letters before this offset; 0: from the newest on.", kind=int, default=0, least=0)


def wanted_of(request: PageRequest) -> Callable[[MessageView], bool] | None:
    return condition(**{one.name: request.text(one.name) for one in FILTERS})  # type: ignore[arg-type] # by name


async def gather(context: PageContext, request: PageRequest) -> LettersPage:
    wanted = wanted_of(request)

    async def found(lake: Lake) -> LetterMatches:
        try:
            reader = await DeadLetterReader.open(lake, request["group"])
        except TopicNotFound:
            await lake.coordination.groups.get(request["group"])
            return NOTHING
        return await _found(reader, context.now, wanted, before=request.number("before"))

    return LettersPage(group=request["group"], found=await context.part(found, fatal=(GroupNotFound,)))


async def _found(
    reader: DeadLetterReader, now: datetime, wanted: Callable[[MessageView], bool] | None, *, before: int
) -> LetterMatches:
    earliest, following = await reader.offsets()
    end = min(before or following, following)
    start = max(earliest, end - LOOKED)
    letters, unreadable = await reader.letters(start, end, wanted)
    rows = [letter_of(one, reader.redrives, body_bytes=BODY_BYTES) for one in letters]
    rows.reverse()
    shown = rows[:SHOWN]
    older = shown[-1].offset if len(shown) < len(rows) else start if start > earliest else None
    return LetterMatches(
        kept=following - earliest,
        end=following,
        looked=max(0, end - start),
        unreadable=unreadable,
        matching=len(rows),
        by_reason=tallies(one.reason for one in rows),
        by_origin=tallies(NO_DEAD_LETTER if one.origin is None else one.origin.topic for one in rows),
        by_age=by_age([one.stored for one in rows], now),
        rows=tuple(shown),
        older=older,
    )


def tallies(names: Iterable[str]) -> tuple[LetterTally, ...]:
    return tuple(LetterTally(name=name, letters=count) for name, count in Counter(names).most_common(TALLIES))


def by_age(times: Sequence[datetime], now: datetime) -> tuple[LetterTally, ...]:
    counts = Counter(next((name for name, age in AGES if now - time < age), OLDER) for time in times)
    return tuple(LetterTally(name=name, letters=counts[name]) for name in [*(name for name, _ in AGES), OLDER] if counts[name])


async def export_letters(context: PageContext, request: PageRequest) -> DownloadContent:
    """The matching letters as JSON lines, the oldest first. Raises `TopicNotFound`."""
    group, wanted = request["group"], wanted_of(request)
    before = request.number("before")

    reader = await context.using(lambda lake: DeadLetterReader.open(lake, group))

    async def lines() -> AsyncIterator[bytes]:
        left = EXPORTED_MAX
        async with aclosing(Reader(reader.topic).messages(queue=QUEUE, end=before or "latest", damaged="skip")) as letters:
            async for letter in letters:
                if wanted is None or wanted(letter):
                    yield json_line(letter_document(letter, reader.redrives)).encode()
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
    command=lambda request: words("read", request["group"], {one.name: request.text(one.name) for one in FILTERS}),
    parameters=(*FILTERS, BEFORE),
    crumbs=lambda request: [Breadcrumb("Dead letters", "dead_letters")],
)

EXPORT = Download(
    name="letters_export",
    path="/dead-letters/{group}/export",
    about="The dead letters of a group that match as JSON lines, at most 100,000.",
    gather=export_letters,
    parameters=(*FILTERS, BEFORE),
)
