"""The overview of a lake: what needs attention first, then its groups and topics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..lakes.source import Looked
from .attention import Attention, attention
from .page import Asked, Page, Scene
from .rows import GroupRow, group_rows, live_groups

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


async def gather(scene: Scene, asked: Asked) -> Overview:
    return overview_of(await scene.source.look())


def overview_of(looked: Looked) -> Overview:
    """What one look tells."""
    rows, found = group_rows(looked), attention(looked)
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
    )


def live(shown: Overview) -> dict[str, object]:
    totals = {
        name: getattr(shown, name) for name in ("at", "topics", "groups", "lag", "parked", "waiting_timers", "attention_total")
    }
    return {**totals, **live_groups(shown.furthest_behind)}


PAGE = Page(
    name="overview",
    path="/",
    title="Overview",
    about="What needs attention first, the groups that are furthest behind, and counts of the lake.",
    shows=Overview,
    gather=gather,
    command=lambda asked: ["top", "--count", "1"],
    menu="Overview",
    live=live,
)
