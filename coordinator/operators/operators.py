"""Operators' questions and orders about consumer groups."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Unpack

from ...log.errors import CallError, InvalidArgument, TopicNotFound
from ...log.lake import LogLake
from ...log.limits import WAIT_MAX, Duration, optional_duration, plain
from ...log.message.message import from_ms
from ...log.read.reader import Position as Place
from ...log.read.reader import Reader
from ...log.read.tables import table_of
from ...log.topic.timer_log import check_own
from ...log.topic.topics import Topic, read_only
from ..cells.cells import Cells, StoredCell
from ..cells.keys import WORKERS, group_queues, queue_key, worker_key, worker_of
from ..coordination import Coordination
from ..groups.record import (
    CommandKind,
    GroupChanges,
    GroupInUse,
    GroupNotFound,
    GroupProtocol,
    GroupRecord,
    GroupSettings,
    check_protocol,
    check_stated_filters,
)
from ..queues.cell import MessageState, QueueCell, removed_queue
from ..queues.codec import decode_cell
from ..queues.commands import begin, caught_up
from ..registry.failures import LastFailure, read_failures
from ..registry.former_work import NOTHING, FormerWork, works_left
from ..workers.lease import decode_heartbeat
from ..workers.liveness import WorkerState, WorkerStatus, watch_workers, workers, workers_of
from .classic_queues import ClassicLook, read_classic
from .describe import GroupDescription, QueueProgress, facts_of, oldest_unsettled, queue_progress, workers_to_ask
from .holding import GroupWork, work_of
from .parked import ParkedGroup, parked_in

log = logging.getLogger("penstock.coordinator")

_AT_ONCE = 8
_ASKED_MAX = 64
"""The workers whose heartbeats are read for one group."""
_FORCE = "stop them first, or force it"
CHANGEABLE = tuple(GroupChanges.__annotations__)


@dataclass(frozen=True, slots=True)
class _View:
    name: str
    topic: Topic | None
    cells: Mapping[int, QueueCell]
    removed: tuple[QueueCell, ...]
    left: Mapping[int, FormerWork] = field(default_factory=dict)
    """What is to be done in former queues first, by queue."""


class Operators:
    """The operators of one lake. Each order is one write of the group's record.

    Writing methods raise `ReadOnlyError` on a read-only lake. All raise `GroupNotFound`.
    """

    def __init__(self, lake: LogLake, coordination: Coordination) -> None:
        self._lake = lake
        self._coordination = coordination
        self._groups = coordination.groups
        self._readers: dict[str, tuple[Topic, Reader]] = {}

    # --- Groups -----------------------------------------------------------------------------------------------------------------

    async def create(self, group: str, settings: GroupSettings) -> GroupSettings:
        """Nothing happens when the group exists with these settings. Raises `GroupExists`, showing both, for others."""
        self._may_write("create_group")
        return (await self._groups.create(group, settings)).settings

    async def alter(self, group: str, **changes: Unpack[GroupChanges]) -> GroupSettings:
        """Change retry, max_attempts, dead_letter_policy or filters, for members within seconds."""
        if isinstance(filters := changes.get("filters"), Mapping):
            check_stated_filters(filters)
        self._may_write("alter_group")
        if unknown := sorted(set(changes) - set(CHANGEABLE)):
            hint = "a group of another name can have it" if "delivery_order" in unknown else None
            raise InvalidArgument(
                f"{', '.join(unknown)} cannot be changed",
                operation="alter_group",
                object=group,
                expected=", ".join(CHANGEABLE),
                hint=hint,
            )

        def altered(record: GroupRecord) -> GroupRecord:
            check_protocol(record, GroupProtocol.PENSTOCK, group)
            return replace(record, settings=replace(record.settings, **changes))

        return (await self._groups.update(group, altered)).settings

    async def delete(self, group: str, *, force: bool = False) -> None:
        """Delete a group. A new one of its name begins anew.

        Raises `GroupInUse` when a member lives, or messages given up have no dead letter yet. A silent member is watched for a lease and a quarter.
        With ``force`` live members end with an error, and unwritten dead letters are lost, which is logged.
        """
        self._may_write("delete_group")
        looked_at = await self._groups.get(group)
        if not force:
            await self._check_unused(group, looked_at, operation="delete_group", hint=_FORCE)
        await self._check_dead_letters_written(group, looked_at, force=force)

        def check(found: GroupRecord) -> None:
            if joined := sorted({*found.all_members} - {*looked_at.all_members}):
                raise _in_use(group, joined, operation="delete_group", hint=_FORCE)

        await self._groups.delete(group, life=looked_at.lives, check=None if force else check)

    async def _check_dead_letters_written(self, group: str, record: GroupRecord, *, force: bool) -> None:
        for topic, position in record.positions.items():
            queues = range(record.positions[topic].queues_ever)
            cells = [await stored_cell(self._coordination.cells, group, topic, queue) for queue in queues]
            found = {queue: cell.dead_letters.assigned for queue, cell in enumerate(cells) if cell and cell.dead_letters.assigned}
            if not found:
                continue
            opened = await self._topic(topic)
            if not force and opened is not None and opened.life == position.life:
                raise GroupInUse(
                    "messages that the consumer group gave up have no dead letter yet",
                    operation="delete_group",
                    object=group,
                    observed=f"{sum(map(len, found.values()))} of topic {topic}",
                    hint="let a consumer of the group run until they are written, or force it: then they are lost",
                )
            for queue, offsets in found.items():
                log.error(
                    "group %s, %s queue %d: the group is deleted, and messages that it gave up have no dead letter: they are lost: offsets %s",
                    group,
                    topic,
                    queue,
                    ", ".join(map(str, offsets)),
                )

    async def check_unused(self, group: str, *, operation: str, hint: str = "stop them first, or use another group") -> None:
        """Raise `GroupInUse` when a member of the group lives. A silent member is watched for a lease and a quarter."""
        await self._check_unused(group, await self._groups.get(group), operation=operation, hint=hint)

    async def _check_unused(self, group: str, record: GroupRecord, *, operation: str, hint: str) -> None:
        if record.protocol is GroupProtocol.KAFKA:
            living = list((await self._classic(group, record)).member_ids)
        else:
            living = await self._living(record)
        if living:
            raise _in_use(group, living, operation=operation, hint=hint)

    async def groups(self) -> dict[str, GroupSettings]:
        return {name: record.settings for name, record in (await self._groups.all()).items()}

    async def workers(self, *, watch: Duration | None = None, group: str | None = None) -> list[WorkerStatus]:
        """All workers but those that ended in order; with ``group`` those with a consumer of it. Each is watched until its state is certain."""
        patience = optional_duration("watch", watch, most=WAIT_MAX, operation="workers")
        cells = self._coordination.cells
        patience_s = math.inf if patience is None else patience.total_seconds()
        names = await (workers(cells) if group is None else workers_of(cells, group))
        seen = await watch_workers(cells, self._lake.runtime, names, patience_s=patience_s)
        return [one for one in seen if one.state is not WorkerState.LEFT]

    async def _living(self, record: GroupRecord) -> list[str]:
        by_worker: dict[str, list[str]] = {}
        for member in record.all_members:
            by_worker.setdefault(worker_of(member), []).append(member)

        def listed(seen: WorkerStatus) -> list[str]:
            alive = set() if seen.heartbeat is None else {f"{seen.worker}/{one.number}" for one in seen.heartbeat.members}
            return [member for member in by_worker[seen.worker] if member in alive]

        seen = await watch_workers(
            self._coordination.cells,
            self._lake.runtime,
            by_worker,
            enough=lambda one: one.may_live and one.state is not WorkerState.SILENT and bool(listed(one)),
        )
        return [member for one in seen if one.may_live for member in listed(one)]

    # --- Where a group is -------------------------------------------------------------------------------------------------------

    async def describe(self, group: str, *, table_age_s: float = 0.0) -> GroupDescription:
        """Retention is seen ``table_age_s`` late at most."""
        record = await self._groups.get(group)
        views = await self._views(group, record)
        limit = asyncio.Semaphore(_AT_ONCE)

        async def standings(view: _View) -> list[QueueProgress]:
            async with limit:
                return await self._queue_progress(view, table_age_s)

        found = [one for some in await asyncio.gather(*map(standings, views)) for one in some]
        lost = sum(cell.dead_letters.lost for view in views for cell in (*view.cells.values(), *view.removed))
        if record.protocol is GroupProtocol.KAFKA:
            look = await self._classic(group, record)
            return GroupDescription(group, record.settings, look.member_ids, tuple(found), lost, record.protocol, look.described)
        failures = await self._failures(group, views)
        work = await self._work(group, found)
        return GroupDescription(group, record.settings, record.all_members, tuple(found), lost, failures=tuple(failures), work=work)

    async def parked(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """The parked message groups, by topic, queue and offset, without those whose release or skip was ordered."""
        return await self._parked(group, await self._groups.get(group), topic=topic, queue=queue, message_group=message_group)

    async def _parked(
        self, group: str, record: GroupRecord, *, topic: str | None, queue: int | None, message_group: str | None
    ) -> list[ParkedGroup]:
        _check_chosen(group, record, topic, queue)
        found: list[ParkedGroup] = []
        views = await self._views(group, record, topic)
        failures = await self._failures(group, views, parked_alone=True)
        for view in views:
            reader = self._reader(view.topic) if view.topic is not None else None
            found += await parked_in(view.name, reader, tuple(view.cells.values()), failures)
        return [
            one
            for one in found
            if (queue is None or one.queue == queue) and (message_group is None or one.message_group == message_group)
        ]

    async def _work(self, group: str, queues: Sequence[QueueProgress]) -> GroupWork:
        names = workers_to_ask(queues)[:_ASKED_MAX]
        stored = await self._coordination.cells.read_these([worker_key(name) for name in names], under=WORKERS)
        beats = {key.removeprefix(WORKERS): decode_heartbeat(one.data, where=key) for key, one in stored.items()}
        return work_of(facts_of(queues, beats, group))

    async def _failures(self, group: str, views: Sequence[_View], *, parked_alone: bool = False) -> list[LastFailure]:
        """Newest first. ``parked_alone``: of queues with a parked message group."""
        cells = {
            (view.name, queue): cell
            for view in views
            for queue, cell in view.cells.items()
            if not parked_alone or any(one.tries.state is MessageState.PARKED for one in cell.markers.values())
        }
        found = await read_failures(self._coordination.cells, group, cells)
        return sorted((one for some in found.values() for one in some), key=lambda one: one.time, reverse=True)

    async def _views(self, group: str, record: GroupRecord, only: str | None = None) -> list[_View]:
        names = sorted(record.positions) if only is None else [only]
        if record.protocol is GroupProtocol.KAFKA:
            look = await self._classic(group, record)
            topics = await asyncio.gather(*map(self._topic, names))
            return [_classic_view(look, record, name, topic) for name, topic in zip(names, topics, strict=True)]
        keys = [queue_key(group, name, queue) for name in names for queue in range(record.positions[name].queues_ever)]
        cells = await self._coordination.cells.read_these(keys, under=group_queues(group))
        limit = asyncio.Semaphore(_AT_ONCE)

        async def view(name: str) -> _View:
            async with limit:
                # Read after the cells: what these have settled is there.
                return self._view(group, record, await self._topic(name), name, cells)

        return list(await asyncio.gather(*map(view, names)))

    def _view(self, group: str, record: GroupRecord, topic: Topic | None, name: str, cells: Mapping[str, StoredCell]) -> _View:
        if topic is not None:
            record = record.following(name, topic.life, topic.settings.queues)
        position = record.positions[name]

        def cell(queue: int) -> QueueCell | None:
            key = queue_key(group, name, queue)
            return decode_cell(cells[key].data, where=key) if key in cells else None

        present = (
            caught_up(cell(queue) or begin(position, queue), record, name, queue, letters_max=math.inf)
            for queue in range(len(position.offsets))
        )
        gone = (
            removed_queue(cell(queue) or QueueCell(), position.since) for queue in range(len(position.offsets), position.queues_max)
        )
        found = dict(enumerate(present))
        left = {} if topic is None else works_left(topic.tail.state.growths, record, name, found)
        return _View(name, topic, found, tuple(gone), left)

    async def _classic(self, group: str, record: GroupRecord) -> ClassicLook:
        return await read_classic(self._coordination.cells, group, record)

    async def _topic(self, name: str) -> Topic | None:
        try:
            topic = await self._lake.topic(name)
            await topic.tail.catch_up()
            return topic if topic.is_current else await self._lake.topic(name)
        except TopicNotFound:
            return None

    def _reader(self, topic: Topic) -> Reader:
        before = self._readers.get(topic.paths.topic)
        if before is None or before[0] is not topic:
            before = self._readers[topic.paths.topic] = (topic, Reader(topic))
        return before[1]

    async def _queue_progress(self, view: _View, table_age_s: float) -> list[QueueProgress]:
        if view.topic is None:
            return [
                queue_progress(view.name, queue, cell, earliest=0, following=None, lag_time=timedelta())
                for queue, cell in view.cells.items()
            ]
        reader = self._reader(view.topic)
        offsets = reader.known_offsets()
        lags = any(oldest_unsettled(cell, *offsets[queue]) is not None for queue, cell in view.cells.items())
        if lags and not (table := table_of(view.topic)).was_read_within(table_age_s):
            await table.refresh()  # of what nobody lacks, it does not matter whether retention dropped it
            offsets = reader.known_offsets()
        oldest = {queue: oldest_unsettled(cell, *offsets[queue]) for queue, cell in view.cells.items()}
        ages = await self._ages(reader, {queue: offset for queue, offset in oldest.items() if offset is not None})
        return [
            queue_progress(
                view.name,
                queue,
                cell,
                earliest=offsets[queue][0],
                following=offsets[queue][1],
                lag_time=ages.get(queue, timedelta()),
                left=view.left.get(queue, NOTHING),
            )
            for queue, cell in view.cells.items()
        ]

    async def _ages(self, reader: Reader, oldest: Mapping[int, int]) -> dict[int, timedelta]:
        now = from_ms(self._lake.runtime.clock.wall_ms())
        return {queue: max(timedelta(), now - stored) for queue, stored in (await reader.stored_at(oldest)).items()}

    # --- Orders -----------------------------------------------------------------------------------------------------------------

    async def reset(self, group: str, topic: str, to: Place, queues: Sequence[int] | None = None) -> dict[int, int]:
        """Let a group go on from another place on a topic, in all queues or some. Returns the offset of each.

        The place becomes offsets now, and members follow within seconds: messages in flight are fenced, nothing before the new offsets is handed out
        again, and nothing after them is lost. A group that has not begun on the topic begins there.
        """
        self._may_write("reset_offsets")
        check_own(topic, operation="reset_offsets")
        if queues is not None and isinstance(queues, Sequence) and not queues:
            raise InvalidArgument(
                "no queue is named", operation="reset_offsets", object=topic, hint="leave queues out for all of them"
            )
        try:
            await self._groups.get(group)
        except GroupNotFound as error:
            with suppress(CallError):  # a topic may have a name that no group can have
                if await self._groups.read(topic) is not None:
                    error.hint = f"the group is named before the topic, and {topic} is a group"
            raise
        opened = await self._lake.topic(topic)
        if queues is not None:
            await opened.tail.catch_up()  # the topic may have got them a moment ago
        offsets = await self._reader(opened).resolve(to, queues=queues)
        count = len(offsets) if queues is None else opened.settings.queues
        await self._groups.reset(group, topic, opened.life, count, offsets)
        return offsets

    async def release(
        self,
        group: str,
        *,
        topic: str | None = None,
        queue: int | None = None,
        message_group: str | None = None,
        only: Collection[tuple[str, int, int]] | None = None,
    ) -> list[ParkedGroup]:
        """Try parked messages again, without strikes, chosen as by `parked` and ``only`` (topic, queue, offset). Returns those ordered.

        Raises `InvalidArgument` for a named message group that is not parked.
        """
        return await self._command(CommandKind.RELEASE, group, topic, queue, message_group, only)

    async def skip(
        self,
        group: str,
        *,
        topic: str | None = None,
        queue: int | None = None,
        message_group: str | None = None,
        only: Collection[tuple[str, int, int]] | None = None,
    ) -> list[ParkedGroup]:
        """Give parked messages up: each becomes a dead letter, and its message group goes on. Otherwise as `release`."""
        return await self._command(CommandKind.SKIP, group, topic, queue, message_group, only)

    async def _command(
        self,
        kind: CommandKind,
        group: str,
        topic: str | None,
        queue: int | None,
        message_group: str | None,
        only: Collection[tuple[str, int, int]] | None,
    ) -> list[ParkedGroup]:
        self._may_write(kind.value)
        record = await self._groups.get(group)
        found = await self._parked(group, record, topic=topic, queue=queue, message_group=message_group)
        if only is not None:
            found = [one for one in found if (one.topic, one.queue, one.offset) in only]
        heads: dict[tuple[str, int], dict[int, int]] = {}
        for one in found:
            heads.setdefault((one.topic, one.queue), {})[one.offset] = one.attempts
        if heads:
            meant = record.generations_of(heads)
            ordered = await self._groups.command(group, kind, heads, generations=meant)
            found = [one for one in found if ordered.generations_of(heads)[one.topic, one.queue] == meant[one.topic, one.queue]]
        if not found and message_group is not None:
            raise InvalidArgument(
                "the message group is not parked",
                operation=kind.value,
                object=group,
                observed=message_group,
                hint="`penstock group parked` names those that are",
            )
        return found

    def _may_write(self, operation: str) -> None:
        if self._lake.read_only:
            raise read_only(operation)


def _classic_view(look: ClassicLook, record: GroupRecord, name: str, topic: Topic | None) -> _View:
    if topic is not None:
        record = record.following(name, topic.life, topic.settings.queues)
    return _View(name, topic, look.queues(record, name), ())


def _in_use(group: str, members: Sequence[str], *, operation: str, hint: str) -> GroupInUse:
    return GroupInUse(
        "members of the consumer group live", operation=operation, object=group, observed=", ".join(members), hint=hint
    )


async def read_cell(cells: Cells, group: str, record: GroupRecord, topic: str, queue: int) -> QueueCell:
    """The cell of a queue with all orders carried out. Raises `DataDamaged`."""
    found = await stored_cell(cells, group, topic, queue) or begin(record.positions[topic], queue)
    return caught_up(found, record, topic, queue, letters_max=math.inf)


async def stored_cell(cells: Cells, group: str, topic: str, queue: int) -> QueueCell | None:
    """The present cell of a queue; None before the first take. Raises `DataDamaged`."""
    key = queue_key(group, topic, queue)
    stored = await cells.read(key)
    return None if stored is None else decode_cell(stored.data, where=key)


def _check_chosen(group: str, record: GroupRecord, topic: str | None, queue: int | None) -> None:
    if topic is not None and (not isinstance(topic, str) or topic not in record.positions):
        raise InvalidArgument(
            "the consumer group has not begun on this topic",
            object=group,
            expected=", ".join(sorted(record.positions)),
            observed=plain(topic),
        )
    queues = max((len(one.offsets) for name, one in record.positions.items() if topic in (None, name)), default=0)
    if queue is not None and (isinstance(queue, bool) or not isinstance(queue, int) or not 0 <= queue < queues):
        raise InvalidArgument("there is no such queue", object=group, expected=f"0 to {queues - 1}", observed=queue)
