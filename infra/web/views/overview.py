"""The overview of a lake: what needs attention first, then its groups and topics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ....aio import Lake
from ....coordinator.tables.open import table_place
from ...cost import Cells
from ..lakes.source import Looked
from .attention import Attention, attention
from .charts import Chart, charts
from .money import Money, cells_of, money
from .page import Asked, Page, Scene
from .rows import GroupRow, group_rows, live_groups
from .watched import Watched, watched

GROUPS_SHOWN = 20
ATTENTION_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A lake at one moment."""

    at: datetime
    """The time of the look."""
    topics: int
    groups: int
    lag: int
    """The messages that are not settled, of all groups."""
    parked: int
    waiting_timers: int
    """The delayed messages that wait."""
    attention: tuple[Attention, ...]
    attention_total: int
    furthest_behind: tuple[GroupRow, ...]
    timer_topics: int
    """The topics with delayed messages that wait."""
    timer_topics_watched: int
    """The number of them in which late messages are looked for: those with the most."""
    charts: tuple[Chart, ...]
    """The last hour, as far as anybody looked."""
    money: Money | None
    """What the requests cost a day; None: not known yet, or nothing flows."""


async def gather(scene: Scene, asked: Asked) -> Overview:
    looked = await scene.source.look()
    more, cells = await watched(scene), await scene.using(_cells)
    return overview_of(looked, more, charts(scene.source.history.points), money(looked, cells))


async def _cells(lake: Lake) -> Cells:
    return cells_of(table_place(lake.coordination_url, lake.store.url))


def overview_of(looked: Looked, more: Watched, drawn: tuple[Chart, ...], costs: Money | None) -> Overview:
    """What the last looks tell."""
    rows, found = group_rows(looked), attention(looked, more)
    return Overview(
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
        charts=drawn,
        money=costs,
    )


def live(shown: Overview) -> dict[str, object]:
    totals = {
        name: getattr(shown, name) for name in ("at", "topics", "groups", "lag", "parked", "waiting_timers", "attention_total")
    }
    drawn = {f"{name}:{one.name}": getattr(one, name) for one in shown.charts for name in ("last", "most", "lines")}
    return {**totals, **drawn, **live_groups(shown.furthest_behind)}


PAGE = Page(
    name="overview",
    path="/",
    title="Overview",
    about="What needs attention first, the groups that are furthest behind, counts, the last hour as charts, and what requests cost a day.",
    shows=Overview,
    gather=gather,
    command=lambda asked: ["top", "--count", "1"],
    menu="Overview",
    live=live,
)
