"""The consumer groups with dead letters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from ....aio import Lake
from ....log.paths import dead_letter_group
from ...operating.letters import DeadLetterReader, dead_letters_of, letter_of
from ..faults import PagePart
from ..lakes.source import LakeSnapshot
from .letters import LetterTally, tallies
from .page import FILTER, NUMBER, PageContext, PageDefinition, PageRequest, Pagination

ROWS = 8
"""The groups on a page, at first some seven requests each."""
KEPT_S = 300.0
"""The longest reuse of a group's newest letters, while none is written."""
SAMPLE = 20
"""The newest letters that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestLetters:
    """The newest letters of a group."""

    kept: int
    last: datetime | None
    sampled: int
    by_reason: tuple[LetterTally, ...]
    by_origin: tuple[LetterTally, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQueueRow:
    """A group with a dead-letter queue."""

    group: str
    written: int
    """The number ever written; 0 for a deleted group."""
    newest: PagePart[NewestLetters]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersPage:
    """The content of the page."""

    at: datetime
    span: Pagination
    rows: tuple[DeadLetterQueueRow, ...]


async def gather(context: PageContext, request: PageRequest) -> DeadLettersPage:
    looked = await context.source.look()
    wanted = (request.text("filter") or "").lower()
    written = written_by_group(looked)
    names = [group for name in looked.topics if (group := dead_letter_group(name)) is not None]
    names = sorted((name for name in names if wanted in name.lower()), key=lambda name: (-written.get(name, 0), name))
    span = Pagination.of(len(names), request.number("page"), rows=ROWS)

    async def row(name: str) -> DeadLetterQueueRow:
        async def read() -> NewestLetters:
            return await context.using(lambda lake: _newest(lake, name))

        count = written.get(name, 0)
        key = ("newest letters", name, count)
        newest = await context.part(lambda _: context.source.memo.get(key, read, fresh_s=KEPT_S))
        return DeadLetterQueueRow(group=name, written=count, newest=newest)

    return DeadLettersPage(at=looked.at, span=span, rows=tuple(await asyncio.gather(*map(row, names[span.slice]))))


def written_by_group(looked: LakeSnapshot) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in looked.seen.groups:
        found[one.group] = found.get(one.group, 0) + one.dead_letters
    return found


async def _newest(lake: Lake, group: str) -> NewestLetters:
    reader = DeadLetterReader(await dead_letters_of(lake, group))  # what went back does not count here
    earliest, following = await reader.offsets()
    letters, _ = await reader.letters(max(earliest, following - SAMPLE), following)
    rows = [letter_of(one, reader.redrives, body_bytes=0) for one in letters]
    return NewestLetters(
        kept=following - earliest,
        last=rows[-1].stored if rows else None,
        sampled=len(rows),
        by_reason=tallies(one.reason for one in rows),
        by_origin=tallies("" if one.origin is None else one.origin.topic for one in rows),
    )


PAGE = PageDefinition(
    name="dead_letters",
    path="/dead-letters",
    title="Dead letters",
    about="The consumer groups that have dead letters, with the reasons and origins of the newest; 8 a page.",
    shows=DeadLettersPage,
    gather=gather,
    command=lambda request: ["dlq", "list"],
    parameters=(FILTER, NUMBER),
    menu="Dead letters",
    live=lambda shown: {f"written:{row.group}": row.written for row in shown.rows},
)
