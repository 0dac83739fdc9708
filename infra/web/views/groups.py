"""The list of consumer groups, the greatest lag first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .page import FILTER, NUMBER, PageContext, PageDefinition, PageRequest, Pagination
from .rows import GroupRow, group_rows, live_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPage:
    """One page of the list: a row for each group and topic."""

    at: datetime
    span: Pagination
    rows: tuple[GroupRow, ...]


async def gather(context: PageContext, request: PageRequest) -> GroupsPage:
    looked = await context.source.look()
    wanted = (request.text("filter") or "").lower()
    rows = [one for one in group_rows(looked) if wanted in one.group.lower() or wanted in one.topic.lower()]
    span = Pagination.of(len(rows), request.number("page"))
    return GroupsPage(at=looked.at, span=span, rows=tuple(rows[span.slice]))


PAGE = PageDefinition(
    name="groups",
    path="/groups",
    title="Consumer groups",
    about="The consumer groups on each of their topics: lag, age, owners, and what is blocked or parked; 50 a page.",
    shows=GroupsPage,
    gather=gather,
    command=lambda request: ["group", "lag"],
    parameters=(FILTER, NUMBER),
    menu="Groups",
    live=lambda shown: live_groups(shown.rows),
)
