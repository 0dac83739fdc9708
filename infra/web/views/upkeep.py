"""Maintenance: its processes, and each topic's state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....coordinator.cells.keys import role_key, worker_of
from ....coordinator.queues.codec import decode_cell
from ....coordinator.rebalance.roles import MAINTENANCE, Players
from ....coordinator.timers.role import TIMERS
from ....coordinator.transactions.finisher import TRANSACTIONS
from ....coordinator.workers.liveness import WorkerState
from ....log.message.message import from_ms
from ....log.read.tables import table_of
from ..faults import PagePart
from ..lakes.source import LakeSnapshot
from .page import FILTER, NUMBER, PageContext, PageDefinition, PageRequest, Pagination

TOPICS = 5
"""The topics on a page, some three requests each."""
LATE = timedelta(minutes=10)
"""The time without a commit after which publishing stands still."""
ROLES = {
    MAINTENANCE: "publishes, compacts, retains, trims and collects",
    TIMERS: "delivers delayed messages",
    TRANSACTIONS: "finishes transactions of senders that died",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRow:
    """A role, and its processes."""

    role: str
    about: str
    live: int
    not_known: int
    """Processes without a heartbeat so far."""
    is_missing: bool
    """Whether there is work without a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceDetails:
    """The upkeep of a topic."""

    unpublished: int
    last_commit: datetime | None
    """None: there is no table."""
    stands_still: bool
    """Whether messages wait without a commit for long."""
    version: int
    table_bytes: int
    table_files: int
    player: str
    """The topic's player; empty: none."""
    player_state: WorkerState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRow:
    """A topic of the list."""

    topic: str
    kept: PagePart[MaintenanceDetails]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePage:
    """The content of the page."""

    at: datetime
    roles: PagePart[tuple[RoleRow, ...]]
    span: Pagination
    topics: tuple[MaintenanceRow, ...]


async def gather(context: PageContext, request: PageRequest) -> MaintenancePage:
    looked, now = await context.source.look(), context.now
    wanted = (request.text("filter") or "").lower()
    names = [name for name in looked.topics if wanted in name.lower()]
    span = Pagination.of(len(names), request.number("page"), rows=TOPICS)

    async def of(name: str) -> MaintenanceRow:
        return MaintenanceRow(topic=name, kept=await context.part(lambda lake: _kept(lake, looked, name, now)))

    roles = await context.part(lambda lake: _roles(lake, looked))
    return MaintenancePage(at=looked.at, roles=roles, span=span, topics=tuple(await asyncio.gather(*map(of, names[span.slice]))))


async def _roles(lake: Lake, looked: LakeSnapshot) -> tuple[RoleRow, ...]:
    players, found = Players(lake.coordination.cells, lake.runtime), []
    for role, about in ROLES.items():
        record = await players.get(role)
        states = [state_of(looked, one) for one in record.all_members]
        live, silent = states.count(WorkerState.LIVES), states.count(WorkerState.SILENT)
        has_work = bool(looked.topics) if role == MAINTENANCE else role == TIMERS and any(looked.seen.timers.values())
        found.append(RoleRow(role=role, about=about, live=live, not_known=silent, is_missing=has_work and not live and not silent))
    return tuple(found)


def state_of(looked: LakeSnapshot, member: str) -> WorkerState | None:
    """None: it ended."""
    for one in looked.seen.workers:
        if one.worker == worker_of(member):
            there = one.heartbeat is not None and any(f"{one.worker}/{listed.number}" == member for listed in one.heartbeat.members)
            return one.state if there else None
    return None


async def _kept(lake: Lake, looked: LakeSnapshot, name: str, now: datetime) -> MaintenanceDetails:
    topic = await lake.topic(name)
    table = await table_of(topic).refresh()
    await topic.tail.catch_up()
    unpublished = sum(following - table.end(queue) for queue, following in enumerate(topic.tail.state.next_offsets))
    key = role_key(name, MAINTENANCE)
    stored = await lake.coordination.cells.read(key)
    player = "" if stored is None else decode_cell(stored.data, where=key).owner
    last = from_ms(table.time_ms) if table.exists else None
    return MaintenanceDetails(
        unpublished=max(0, unpublished),
        last_commit=last,
        stands_still=unpublished > 0 and now - (last or from_ms(topic.record.created_ms)) >= LATE,
        version=table.version,
        table_bytes=table.size_bytes,
        table_files=len(table.all_files),
        player=player,
        player_state=state_of(looked, player) if player else None,
    )


def live(shown: MaintenancePage) -> dict[str, object]:
    found: dict[str, object] = {"at": shown.at}
    for row in shown.topics:
        if row.kept.value is not None:
            found |= {f"unpublished:{row.topic}": row.kept.value.unpublished, f"last:{row.topic}": row.kept.value.last_commit}
    return found


PAGE = PageDefinition(
    name="upkeep",
    path="/upkeep",
    title="Maintenance",
    about="Who offers maintenance, and for each topic what is not published, when its table was written last, and who holds the role.",
    shows=MaintenancePage,
    gather=gather,
    command=lambda request: ["workers"],
    parameters=(FILTER, NUMBER),
    menu="Maintenance",
    live=live,
)
