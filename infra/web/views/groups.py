"""The list of consumer groups, page by page, with the greatest lag first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .page import FILTER, NUMBER, Asked, Page, Scene, Span
from .rows import GroupRow, group_rows, live_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """One page of the list: a row for each group and topic that it reads."""

    at: datetime
    span: Span
    rows: tuple[GroupRow, ...]


async def gather(scene: Scene, asked: Asked) -> Groups:
    looked = await scene.source.look()
    wanted = (asked.text("filter") or "").lower()
    rows = [one for one in group_rows(looked) if wanted in one.group.lower() or wanted in one.topic.lower()]
    span = Span.of(len(rows), asked.number("page"))
    return Groups(at=looked.at, span=span, rows=tuple(rows[span.slice]))


PAGE = Page(
    name="groups",
    path="/groups",
    title="Consumer groups",
    about="The consumer groups on each of their topics: lag, age, owners, and what is blocked or parked; 50 a page.",
    shows=Groups,
    gather=gather,
    command=lambda asked: ["group", "lag"],
    parameters=(FILTER, NUMBER),
    menu="Groups",
    live=lambda shown: live_groups(shown.rows),
)
