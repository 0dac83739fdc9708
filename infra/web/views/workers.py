"""The consuming processes: state, queues, and takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....coordinator.operators.lake_view import LakeOverview
from ....coordinator.workers.liveness import WorkerState, WorkerStatus
from ...operating.workers import consumption_text
from ..lakes.source import LakeSnapshot
from .page import FILTER, NUMBER, PageContext, PageDefinition, PageRequest, Pagination

HELD_SHOWN = 12
_ORDER = [WorkerState.FENCED, WorkerState.EXPIRED, WorkerState.SILENT, WorkerState.LIVES, WorkerState.LEFT]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQueuesRow:
    """A process's queues of a group's topic."""

    group: str
    topic: str
    queues: int
    lag: int
    """Unsettled messages."""
    in_flight: int
    takes: int
    """The takes ever, by all processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One process."""

    worker: str
    label: str
    state: WorkerState
    lease: timedelta
    consumes: tuple[str, ...]
    """Groups with their topics; upkeep: it only maintains topics."""
    held: tuple[HeldQueuesRow, ...]
    """The first ones."""
    queues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRow:
    """A group's topic with hand-overs since the look before."""

    group: str
    topic: str
    queues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersPage:
    """The content of the page."""

    at: datetime
    lives: int
    not_known: int
    """Processes without a heartbeat so far, whose leases may still run."""
    dead: int
    hand_overs: tuple[HandOverRow, ...]
    since: timedelta | None
    """Between the two looks; None: this is the first."""
    unowned: int
    """Queues with unsettled messages and no live owner."""
    span: Pagination
    rows: tuple[WorkerRow, ...]


async def gather(context: PageContext, request: PageRequest) -> WorkersPage:
    return workers_of(await context.source.look(), (request.text("filter") or "").lower(), request.number("page"))


def workers_of(looked: LakeSnapshot, wanted: str, page: int) -> WorkersPage:
    held = holdings(looked.seen)
    rows = [_row(one, held.get(one.worker, [])) for one in looked.seen.workers]
    states = [one.state for one in rows]
    chosen = [one for one in rows if any(wanted in text.lower() for text in (one.worker, one.label, *one.consumes))]
    chosen.sort(key=lambda one: (_ORDER.index(one.state), one.label, one.worker))
    span = Pagination.of(len(chosen), page)
    before = looked.before
    return WorkersPage(
        at=looked.at,
        lives=states.count(WorkerState.LIVES),
        not_known=states.count(WorkerState.SILENT),
        dead=states.count(WorkerState.EXPIRED) + states.count(WorkerState.FENCED),
        hand_overs=() if before is None else hand_overs(before, looked.seen),
        since=None if before is None else timedelta(seconds=round(looked.seen.ended_s - before.ended_s, 1)),
        unowned=sum(len(one.queues) - one.owned for one in looked.seen.groups if any(queue.progress.lag for queue in one.queues)),
        span=span,
        rows=tuple(chosen[span.slice]),
    )


def holdings(seen: LakeOverview) -> dict[str, list[HeldQueuesRow]]:
    """The queues of each process, the greatest lag first."""
    found: dict[str, list[HeldQueuesRow]] = {}
    for group in seen.groups:
        queues_progress = [one.progress for one in group.queues]
        for worker in {one.owner.rpartition("/")[0] for one in queues_progress if one.owner}:
            mine = [one for one in queues_progress if one.owner.rpartition("/")[0] == worker]
            found.setdefault(worker, []).append(
                HeldQueuesRow(
                    group=group.group,
                    topic=group.topic,
                    queues=len(mine),
                    lag=sum(one.lag for one in mine),
                    in_flight=sum(one.in_flight for one in mine),
                    takes=sum(one.epoch for one in mine),
                )
            )
    return {worker: sorted(some, key=lambda one: (-one.lag, one.group, one.topic)) for worker, some in found.items()}


def hand_overs(before: LakeOverview, now: LakeOverview) -> tuple[HandOverRow, ...]:
    """The queues taken between two looks."""
    epochs = {(one.group, one.topic, queue.progress.queue): queue.progress.epoch for one in before.groups for queue in one.queues}
    found = []
    for one in now.groups:
        taken = sum(
            queue.progress.epoch > epochs.get((one.group, one.topic, queue.progress.queue), queue.progress.epoch)
            for queue in one.queues
        )
        if taken:
            found.append(HandOverRow(group=one.group, topic=one.topic, queues=taken))
    return tuple(found)


def _row(seen: WorkerStatus, held: list[HeldQueuesRow]) -> WorkerRow:
    heartbeat = seen.heartbeat
    assert heartbeat is not None, "a look tells of those that have one"
    return WorkerRow(
        worker=seen.worker,
        label=heartbeat.label,
        state=seen.state,
        lease=timedelta(milliseconds=heartbeat.lease_ms),
        consumes=tuple(sorted(set(map(consumption_text, heartbeat.members)))),
        held=tuple(held[:HELD_SHOWN]),
        queues=sum(one.queues for one in held),
    )


def live(shown: WorkersPage) -> dict[str, object]:
    rows: Iterable[WorkerRow] = shown.rows
    totals = {name: getattr(shown, name) for name in ("at", "lives", "not_known", "dead", "unowned")}
    return {**totals, **{f"state:{one.worker}": one.state for one in rows}, **{f"queues:{one.worker}": one.queues for one in rows}}


PAGE = PageDefinition(
    name="workers",
    path="/workers",
    title="Workers",
    about="The processes that consume: whether each lives, what it holds, and what changed hands since the look before.",
    shows=WorkersPage,
    gather=gather,
    command=lambda request: ["workers"],
    parameters=(FILTER, NUMBER),
    menu="Workers",
    live=live,
)
