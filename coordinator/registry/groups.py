"""Reads and writes the records of a lake's consumer groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace

from ...log.errors import InvalidArgument, LimitExceeded, PenstockError, TopicDeleted
from ...log.paths import check_group_name, group_name
from ...log.runtime.runtime import Runtime
from ..cells.cells import WRITE_ID_BYTES, Cells
from ..cells.document import Codec, Document
from ..cells.keys import GROUPS, group_key, positions_key, queue_key
from ..classic.positions import decode_positions
from ..groups.codec import decode_group, encode_group
from ..groups.record import (
    CommandKind,
    GroupExists,
    GroupNotFound,
    GroupProtocol,
    GroupRecord,
    GroupSettings,
    Position,
    check_agreement,
    check_protocol,
    differences,
)
from ..limits import CELL_BYTES_MAX, CELL_STORED_BYTES_MAX, GROUP_BYTES_MAX
from ..queues.cell import QueueCell, removed_queue
from ..queues.codec import QUEUE_CELL, decode_cell

log = logging.getLogger("penstock.coordinator")

_RECORD = Codec(encode_group, decode_group)
_NEVER_MADE = GroupRecord(settings=GroupSettings(), deleted=True)
"""A group that never existed is like a deleted one."""


class GroupRegistry:
    """The records of a lake's groups. Every change is one write of one record. All methods raise `InvalidArgument` or `LimitExceeded` for a bad name,
    `UnknownOutcome`, and what the table raises.
    """

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._runtime = runtime

    # --- Reading ----------------------------------------------------------------------------------------------------------------

    async def read(self, group: str) -> GroupRecord | None:
        check_group_name(group)
        record = await self._document(group).read()
        return None if record.deleted else record

    async def get(self, group: str) -> GroupRecord:
        """Raises `GroupNotFound`."""
        record = await self.read(group)
        if record is None:
            raise _not_found(group)
        return record

    async def all(self) -> dict[str, GroupRecord]:
        """May read the whole table."""
        found: dict[str, GroupRecord] = {}
        for key, stored in sorted((await self._cells.read_all([GROUPS])).items()):
            if isinstance(stored, PenstockError):
                raise stored
            name, record = group_name(key.removeprefix(GROUPS)), decode_group(stored.data, where=key)
            if not record.deleted:
                found[name] = record
        return found

    async def read_these(self, groups: Sequence[str]) -> dict[str, GroupRecord | None]:
        """The records of some groups, None for a missing one. Where there are many, unchanged ones are not read again."""
        keys = {group_key(group): group for group in groups}
        stored = await self._cells.read_these(list(keys), under=GROUPS)
        read = {keys[key]: decode_group(one.data, where=key) for key, one in stored.items()}
        return {group: None if (found := read.get(group)) is None or found.deleted else found for group in groups}

    # --- Settings ---------------------------------------------------------------------------------------------------------------

    async def create(self, group: str, settings: GroupSettings) -> GroupRecord:
        """Nothing happens when the group exists so. Raises `GroupExists`, showing both, for other settings, and `GroupMixed` for one of Kafka's."""
        check_group_name(group)
        secret = self._runtime.new_id()
        record = await self._write(group, lambda found: _created(found, settings, secret))
        check_protocol(record, GroupProtocol.PENSTOCK, group)
        stated = {one.name: getattr(settings, one.name) for one in fields(settings)}
        if differing := differences(stated, record.settings, whole=True):
            raise GroupExists(
                "the consumer group exists with other settings",
                operation="create_group",
                object=group,
                expected={name: asked for name, (asked, _) in differing.items()},
                observed={name: stands for name, (_, stands) in differing.items()},
            )
        return record

    async def ensure(self, group: str, stated: Mapping[str, object]) -> GroupRecord:
        """A consumer's group, made if missing with the stated settings over the defaults.

        Raises `InvalidArgument`, showing both, for an existing group's other settings, and `GroupMixed` for one of Kafka's. A stated filter is
        adopted for a topic that the group has not begun and has no filter for.
        """
        check_group_name(group)
        settings, secret = GroupSettings.stating(stated), self._runtime.new_id()
        found = await self.read(group)

        def agreed(before: GroupRecord) -> GroupRecord:
            record = _created(before, settings, secret)
            check_protocol(record, GroupProtocol.PENSTOCK, group)
            new = {
                topic: tags
                for topic, tags in settings.filters.items()
                if topic not in {*record.positions, *record.settings.filters}
            }
            if new:
                record = replace(record, settings=replace(record.settings, filters={**record.settings.filters, **new}))
            check_agreement(stated, record.settings, group)
            return record

        if found is not None and agreed(found) == found:
            return found
        return await self._write(group, agreed)

    async def ensure_kafka(self, group: str) -> GroupRecord:
        """The group of Kafka's clients, made if missing. Raises `GroupMixed` for one of Penstock's own consumers."""
        found = await self.read(group)
        if found is None:
            secret = self._runtime.new_id()
            found = await self._write(group, lambda before: _created(before, GroupSettings(), secret, protocol=GroupProtocol.KAFKA))
        check_protocol(found, GroupProtocol.KAFKA, group)
        return found

    async def update(self, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        """Write the result of ``change``, which may be called again on its own result. Raises `GroupNotFound`, also when the group was remade
        meanwhile.
        """
        check_group_name(group)
        lives: list[int] = []

        def changed(record: GroupRecord) -> GroupRecord:
            if record.deleted or record.lives not in (lives or [record.lives]):
                raise _not_found(group)
            lives[:] = [record.lives]
            return change(record)

        return await self._write(group, changed)

    async def delete(self, group: str, *, life: int | None = None, check: Callable[[GroupRecord], None] | None = None) -> None:
        """Delete a group; with a ``life`` (`GroupRecord.lives`) only that one. Raises `GroupNotFound`, and what ``check`` raises on the record."""
        deleted: list[GroupRecord] = []

        def gone(record: GroupRecord) -> GroupRecord:
            if deleted and record.lives >= deleted[0].lives:
                return record  # carried out, by this process or another, and then somebody wrote
            if record.deleted or life not in (None, record.lives):
                raise _not_found(group)
            if check is not None:
                check(record)
            deleted[:] = [record.gone()]
            return deleted[0]

        await self._write(group, gone)

    # --- Positions --------------------------------------------------------------------------------------------------------------

    async def begin(
        self, group: str, topic: str, life: int, resolve: Callable[[], Awaitable[tuple[int, ...]]], *, queues: int = 0
    ) -> GroupRecord:
        """The record with a position on a topic, for so many ``queues`` at least: an existing one, or the result of ``resolve``.

        ``life`` is the entry that created the topic. On a remade topic the group begins at the first message. One member resolves for all. Raises
        `GroupNotFound`, and `TopicDeleted` when the group knows a later topic.
        """
        record = await self.get(group)
        if topic in record.positions and record.positions[topic].life == life and record.extended(topic, queues) is record:
            await self._part(group, topic, record.positions[topic])
            return record
        offsets = await resolve()

        def begun(before: GroupRecord) -> GroupRecord:
            known = before.positions.get(topic)
            if known is None:
                return before.begun(topic, offsets, life)
            check_life(topic, known=known.life, life=life)
            return before.following(topic, life, max(queues, len(offsets)))

        record = await self.update(group, begun)
        await self._part(group, topic, record.positions[topic])
        return record

    async def _part(self, group: str, topic: str, position: Position) -> None:
        """Void the cells of queues that only a former topic had, and log their losses. Each member does so: one may die."""
        for queue in range(len(position.offsets), position.queues_max):
            if lost := await self._void(queue_key(group, topic, queue), position.since):
                log.error(
                    "group %s, %s queue %d: the topic was made again with fewer queues; of the former one's messages that were given up, "
                    "these are lost to the group, as they are not known to have a dead letter: offsets %s",
                    group,
                    topic,
                    queue,
                    ", ".join(map(str, lost)),
                )

    async def _void(self, key: str, since: int) -> tuple[int, ...]:
        lost: tuple[int, ...] = ()

        def void(before: QueueCell) -> QueueCell:
            nonlocal lost
            after = removed_queue(before, since)
            lost = () if after is before else before.dead_letters.assigned
            return after

        await Document(self._cells, self._runtime.clock, key, QUEUE_CELL, absent=QueueCell(generation=since)).change(void)
        return lost

    async def reset(self, group: str, topic: str, life: int, queues: int, offsets: Mapping[int, int]) -> GroupRecord:
        """Begin a new generation at these offsets, or of all ``queues`` of a new topic; see `Operators.reset`. With offsets of all queues, those that
        the topic got meanwhile begin at their first message, which came later.
        """
        first: list[GroupRecord] = []
        taken = await self._queue_cells(group, [(topic, queue) for queue in offsets])
        committed = await self._cells.read(key := positions_key(group, topic))
        generations = () if committed is None else decode_positions(committed.data, where=key).generations
        generation = max((*(cell.generation for cell in taken.values()), *generations), default=-1)

        def reset(before: GroupRecord) -> GroupRecord:
            before = before.raised(generation=generation)
            known = before.positions.get(topic)
            if known is not None:
                check_life(topic, known=known.life, life=life)
            if first and known is not None and _is_reset_so(known, first[0].positions[topic], offsets):
                return before  # carried out, and then another wrote
            if known is not None and known.life == life:
                later = range(queues, len(known.offsets)) if len(offsets) == queues else ()
                after = before.extended(topic, queues).reset(topic, {**offsets, **dict.fromkeys(later, 0)})
            elif before.protocol is GroupProtocol.KAFKA:  # queues without a position are as good as any
                after = before.begun(topic, (0,) * queues, life).reset(topic, offsets)
            elif len(offsets) == queues:
                after = before.begun(topic, tuple(offsets[queue] for queue in range(queues)), life)
            else:
                raise InvalidArgument(
                    "the consumer group has not begun on this topic, so its other queues have no position",
                    operation="reset_offsets",
                    object=f"{group}, {topic}",
                    hint="reset all queues, or start a consumer first",
                )
            first[:] = [after]
            return after

        record = await self.update(group, reset)
        await self._part(group, topic, record.positions[topic])
        return record

    # --- Commands ---------------------------------------------------------------------------------------------------------------

    async def command(
        self,
        group: str,
        kind: CommandKind,
        parked: Mapping[tuple[str, int], Mapping[int, int]],
        *,
        generations: Mapping[tuple[str, int], int | None] | None = None,
    ) -> GroupRecord:
        """Order owners to release or skip these message groups: offsets with attempts, by (topic, queue).

        Queues in another generation than in ``generations`` are left alone. Raises `GroupNotFound`, and `LimitExceeded` for a full record.
        """
        ordered = [(command.topic, command.queue) for command in (await self.get(group)).commands]
        taken = await self._queue_cells(group, list(dict.fromkeys([*ordered, *parked])))
        done = {queue: cell.commands for queue, cell in taken.items()}
        tried: list[GroupRecord] = []
        meant: dict[tuple[str, int], Mapping[int, int]] = {}

        def commanded(before: GroupRecord) -> GroupRecord:
            if tried and set(tried[0].commands[-len(meant) :]) <= set(before.commands):
                return before  # carried out, and then another wrote
            stand = before.generations_of(parked)
            meant.clear()
            meant.update({queue: heads for queue, heads in parked.items() if stand[queue] == (generations or stand)[queue]})
            if not meant:
                tried.clear()
                return before
            before = before.raised(commands=max(done.values(), default=0))
            left = tuple(one for one in before.commands if one.number > done.get((one.topic, one.queue), 0))
            after = replace(before, commands=left).commanded_to(kind, meant)
            if (size := len(encode_group(after))) > max(CELL_BYTES_MAX, len(encode_group(before))):
                raise LimitExceeded(
                    "the consumer group's record has no room for more orders until its owners have carried out some",
                    operation=kind.value,
                    object=group,
                    expected=f"at most {CELL_BYTES_MAX} bytes",
                    observed=f"{size} bytes",
                    hint="order it for one queue after the other, and keep a consumer running that carries it out",
                )
            tried[:] = [after]
            return after

        return await self.update(group, commanded)

    async def _queue_cells(self, group: str, queues: Sequence[tuple[str, int]]) -> dict[tuple[str, int], QueueCell]:
        keys = [queue_key(group, *queue) for queue in queues]
        stored = await asyncio.gather(*map(self._cells.read, keys))
        found = zip(queues, keys, stored, strict=True)
        return {queue: decode_cell(one.data, where=key) for queue, key, one in found if one is not None}

    async def _write(self, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        def changed(before: GroupRecord) -> GroupRecord:
            after = change(before)
            if after != before:
                _check_room(before, after, group)
            return after

        return await self._document(group).change(changed)

    def _document(self, group: str) -> Document[GroupRecord]:
        return Document(self._cells, self._runtime.clock, group_key(group), _RECORD, absent=_NEVER_MADE)


def _created(
    found: GroupRecord, settings: GroupSettings, secret: str, *, protocol: GroupProtocol = GroupProtocol.PENSTOCK
) -> GroupRecord:
    return replace(found, settings=settings, secret=secret, deleted=False, protocol=protocol) if found.deleted else found


def _check_room(before: GroupRecord, after: GroupRecord, group: str) -> None:
    size_bytes, was_bytes = _settled_bytes(after), _settled_bytes(before)
    if size_bytes > max(GROUP_BYTES_MAX, was_bytes):
        raise LimitExceeded(
            "the consumer group's record has no room for more topics, queues, filters or positions",
            object=group,
            expected=f"at most {GROUP_BYTES_MAX} bytes, without its members",
            observed=f"{size_bytes} bytes",
            hint="consume some of the topics in another group",
        )
    most_bytes = CELL_STORED_BYTES_MAX - WRITE_ID_BYTES
    if len(encode_group(after)) > most_bytes:
        raise LimitExceeded(
            "the consumer group has too many members",
            object=group,
            expected=f"a record of at most {most_bytes} bytes",
            observed=f"{len(after.all_members)} members",
            hint="those that have died leave when their leases have run out",
        )


def _settled_bytes(record: GroupRecord) -> int:
    """The size without members."""
    return len(encode_group(replace(record, members=(), assigned=())))


def _is_reset_so(position: Position, tried: Position, queues: Iterable[int]) -> bool:
    return (position.life, len(position.offsets)) == (tried.life, len(tried.offsets)) and all(
        (position.offsets[queue], position.generations[queue]) == (tried.offsets[queue], tried.generations[queue])
        for queue in queues
    )


def check_life(topic: str, *, known: int, life: int) -> None:
    """Raise `TopicDeleted` when the group knows a later topic."""
    if known > life:
        raise TopicDeleted(
            "the topic was deleted and created again, and the consumer group has begun on the later one",
            object=topic,
            expected=f"the topic of entry {known}",
            observed=f"that of entry {life}",
            hint="open it anew",
        )


def _not_found(group: str) -> GroupNotFound:
    return GroupNotFound(
        "there is no such consumer group",
        object=group,
        hint="create it with lake.create_group or `penstock group create`, or start a consumer, which makes it",
    )
