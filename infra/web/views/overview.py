"""The overview of a lake: problems first, then groups and topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ....aio import Lake
from ....coordinator.tables.open import table_place
from ...cost import CellStorage
from ..lakes.source import LakeSnapshot
from .attention import AttentionItem, attention
from .charts import Chart, charts
from .daily_cost import DailyCost, cells_of, money
from .lake_problems import LakeProblems, watched
from .page import PageContext, PageDefinition, PageRequest
from .rows import GroupRow, group_rows, live_groups, stored_by_topic, stored_per_second

GROUPS_SHOWN = 20
TOPICS_SHOWN = 8
ATTENTION_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyTopicRow:
    """A topic that consumer groups read."""

    topic: str
    stored_per_second: float | None
    """None: no former look."""
    messages: int
    groups: int
    lag: int
    """Unsettled messages of all its groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage:
    """A lake at one moment."""

    at: datetime
    topics: int
    groups: int
    lag: int
    """Unsettled messages of all groups."""
    parked: int
    waiting_timers: int
    attention: tuple[AttentionItem, ...]
    attention_total: int
    furthest_behind: tuple[GroupRow, ...]
    timer_topics: int
    """Topics with delayed messages."""
    timer_topics_watched: int
    """Watched ones of them."""
    busiest: tuple[BusyTopicRow, ...]
    """The topics with the highest rates."""
    charts: tuple[Chart, ...]
    """The last hour."""
    money: DailyCost | None
    """USD a day; None: unknown, or no rates."""


async def gather(context: PageContext, request: PageRequest) -> OverviewPage:
    looked = await context.source.look()
    more, cells = await watched(context), await context.using(_cells)
    return overview_of(looked, more, charts(context.source.history.points), money(looked, cells))


async def _cells(lake: Lake) -> CellStorage:
    return cells_of(table_place(lake.coordination_url, lake.store.url))


def overview_of(looked: LakeSnapshot, more: LakeProblems, drawn: tuple[Chart, ...], costs: DailyCost | None) -> OverviewPage:
    rows, found = group_rows(looked), attention(looked, more)
    return OverviewPage(
        at=looked.at,
        topics=len(looked.topics),
        groups=len({one.group for one in rows}),
        lag=sum(one.lag for one in rows),
        parked=sum(one.parked for one in rows),
        waiting_timers=sum(looked.seen.timers.values()),
        attention=found[:ATTENTION_SHOWN],
        attention_total=len(found),
        furthest_behind=tuple(rows[:GROUPS_SHOWN]),
        timer_topics=more.timer_topics,
        timer_topics_watched=more.timer_topics_watched,
        busiest=tuple(busiest(looked, rows)[:TOPICS_SHOWN]),
        charts=drawn,
        money=costs,
    )


def busiest(looked: LakeSnapshot, rows: Sequence[GroupRow]) -> list[BusyTopicRow]:
    rates, groups, lag = stored_per_second(looked), Counter[str](), Counter[str]()
    for row in rows:
        groups[row.topic] += 1
        lag[row.topic] += row.lag
    found = (
        BusyTopicRow(topic=topic, stored_per_second=rates.get(topic), messages=messages, groups=groups[topic], lag=lag[topic])
        for topic, messages in stored_by_topic(looked.seen).items()
    )
    return sorted(found, key=lambda one: (-(one.stored_per_second or 0.0), -one.messages, one.topic))


def live(shown: OverviewPage) -> dict[str, object]:
    totals = {
        name: getattr(shown, name) for name in ("at", "topics", "groups", "lag", "parked", "waiting_timers", "attention_total")
    }
    drawn = {f"{name}:{one.name}": getattr(one, name) for one in shown.charts for name in ("last", "most", "axes", "lines")}
    topics = {f"stored:{one.topic}": one.stored_per_second for one in shown.busiest}
    topics |= {f"messages:{one.topic}": one.messages for one in shown.busiest}
    return {
        **totals,
        **drawn,
        **topics,
        **{f"lag:{one.topic}": one.lag for one in shown.busiest},
        **live_groups(shown.furthest_behind),
    }


PAGE = PageDefinition(
    name="overview",
    path="/",
    title="Overview",
    about="What needs attention first, the groups that are furthest behind, counts, the last hour as charts, and what requests cost a day.",
    shows=OverviewPage,
    gather=gather,
    command=lambda request: ["group", "lag"],
    menu="Overview",
    live=live,
)
