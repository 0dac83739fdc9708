"""Reset of a group's offsets on a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ....aio import Lake
from ....log.read.reader import Position, Reader
from ..views.page import Breadcrumb, PageContext
from ..views.positions import position_of
from .action import Action, ActionCount, ActionPreview, ActionResult, AffectedRows

SAMPLE = 10
_COLUMNS = ["queue", "offset", "message_id", "message_group", "tag", "store_timestamp"]
_QUEUE_COLUMNS = ("queue", "now at", "then at", "again", "left out")
_MESSAGE_COLUMNS = ("queue", "offset", "message id", "message group", "tag", "stored")
_QUEUES_SHOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """A reset on a topic, or on one of its queues."""

    group: str
    topic: str
    to: str
    """``earliest``, ``latest``, an offset, a time such as ``2026-01-31T12:00Z``, or a time ago such as ``-10m``."""
    queue: int | None = None


@dataclass(frozen=True, slots=True)
class _Move:
    queue: int
    committed_offset: int | None
    """None: the group has not begun on the topic."""
    to: int

    @property
    def again(self) -> int:
        return 0 if self.committed_offset is None else max(0, self.committed_offset - self.to)

    @property
    def left_out(self) -> int:
        return 0 if self.committed_offset is None else max(0, self.to - self.committed_offset)


async def preview(context: PageContext, reset: OffsetReset) -> ActionPreview:
    to = position_of(reset.to, operation="reset")  # once: "an hour ago" is another moment later

    async def look(lake: Lake) -> ActionPreview:
        found = await lake.describe_group(reset.group)
        reader = await lake.reader(reset.topic)
        queues = None if reset.queue is None else [reset.queue]
        offsets = await reader.resolve(to, queues=queues)
        committed = {one.queue: one.committed_offset for one in found.queues if one.topic == reset.topic}
        moves = [_Move(queue, committed.get(queue), offset) for queue, offset in sorted(offsets.items())]
        return _preview_of(reset, to, moves, await _samples(reader, moves))

    return await context.using(look)


def _preview_of(reset: OffsetReset, to: Position, moves: list[_Move], samples: tuple[AffectedRows, ...]) -> ActionPreview:
    again, left_out = sum(one.again for one in moves), sum(one.left_out for one in moves)
    rows = tuple((one.queue, one.committed_offset, one.to, one.again, one.left_out) for one in moves[:_QUEUES_SHOWN])
    # "latest" moves on by itself; what was shown is then still what was meant.
    meant = reset.to if reset.to in ("latest", "earliest") else repr([(one.queue, one.to) for one in moves])
    return ActionPreview(
        summary=f"Group {reset.group} goes on from {reset.to} on {reset.topic}: {again:,} messages again, {left_out:,} left out.",
        stamp=meant,
        counts=(ActionCount(name="messages again", value=again), ActionCount(name="messages left out", value=left_out)),
        samples=(AffectedRows(title="Queues", columns=_QUEUE_COLUMNS, rows=rows), *samples),
        type_name=reset.group,
        meant=to,
    )


async def _samples(reader: Reader, moves: list[_Move]) -> tuple[AffectedRows, ...]:
    again: Mapping[int, tuple[int, int]] = {one.queue: (one.to, one.to + one.again) for one in moves if one.again}
    left_out = {one.queue: (one.committed_offset, one.to) for one in moves if one.left_out and one.committed_offset is not None}
    found = (
        ("The first messages that run again", await _read(reader, again)),
        ("The first messages that are left out", await _read(reader, left_out)),
    )
    return tuple(AffectedRows(title=title, columns=_MESSAGE_COLUMNS, rows=rows) for title, rows in found if rows)


async def _read(reader: Reader, spans: Mapping[int, tuple[int, int]]) -> tuple[tuple[object, ...], ...]:
    rows: list[tuple[object, ...]] = []
    kept = await reader.offsets()
    for queue, (start, end) in spans.items():
        if len(rows) >= SAMPLE:
            break
        start = max(start, kept[queue][0])
        end = min(end, start + SAMPLE - len(rows), kept[queue][1])
        if start >= end:
            continue
        async for batch in reader.read(queue=queue, start=start, end=end, columns=_COLUMNS, damaged="skip"):
            rows += [tuple(row[name] for name in _COLUMNS) for row in batch.to_pylist()]
    return tuple(rows)


async def do(context: PageContext, reset: OffsetReset, preview: ActionPreview) -> ActionResult:
    queues = None if reset.queue is None else [reset.queue]
    to = cast("Position", preview.meant)
    offsets = await context.using(lambda lake: lake.reset_offsets(reset.group, reset.topic, to, queues=queues))
    return ActionResult(
        summary=f"Group {reset.group} goes on from {reset.to} on {reset.topic}; its members carry it out within seconds.",
        counts=(ActionCount(name="queues", value=len(offsets)),),
    )


def _words(reset: OffsetReset) -> list[str]:
    queue = [] if reset.queue is None else ["--queue", str(reset.queue)]
    return ["group", "reset", reset.group, reset.topic, "--to", reset.to, *queue]


RESET = Action(
    name="reset",
    title="Reset offsets",
    about="Lets a group go on from another place on a topic, while its consumers run.",
    arguments=OffsetReset,
    preview=preview,
    do=do,
    command=_words,
    back=lambda reset: Breadcrumb(f"Consumer group {reset.group}", "group", {"group": reset.group}),
)
