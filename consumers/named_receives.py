"""Receives with names: what is out to them, and its repetition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from ..coordinator.cells.cells import Cells
from ..coordinator.cells.keys import queue_key
from ..coordinator.queues.cell import QueueCell, Receive
from ..coordinator.queues.codec import decode_cell
from ..coordinator.queues.receives import OutstandingMessages, attempt_hash, attempts_out, holder_hash, outstanding
from ..coordinator.rebalance.balance import Queue
from ..log.errors import InvalidArgument, LimitExceeded
from ..log.message.message import MessageView
from ..log.runtime.runtime import Clock
from .dead_letters.group_filter import filter_of_group
from .membership import Membership
from .queues.receive_processor import ReceiveProcessor
from .queues.receive_replay import replayed_messages
from .schedule.handles import ReceiptHandles

NAME_CHARS_MAX = 1_024
"""The longest attempt id or holder; only its hash is stored."""
_REMEMBERED = 1_024
"""The remembered attempt ids, above which some are forgotten."""


@dataclass(frozen=True, slots=True)
class OutstandingDelivery:
    """Messages of one receive that are out to a holder."""

    messages: tuple[MessageView, ...]
    """Messages with the receive's handles and attempts; by topic, queue and offset."""
    due: datetime
    """The UTC time when the first becomes visible to others."""
    holder: str


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    queue: Queue
    cell: QueueCell
    out: OutstandingMessages


class NamedReceives:
    """The named receives of one consumer, and of others by the cells."""

    def __init__(
        self, group: str, membership: Membership, cells: Cells, clock: Clock, queues: Mapping[Queue, ReceiveProcessor]
    ) -> None:
        self._group = group
        self._membership = membership
        self._cells = cells
        self._clock = clock
        self._queues = queues
        self._handed: dict[int, dict[Queue, int]] = {}
        """The queues that were asked for each hashed attempt id, and when their messages are due."""
        self._room = _REMEMBERED
        self._turns: dict[int, _Turn] = {}

    def named(self, attempt_id: str | None, holder: str | None) -> Receive | None:
        """The name of a receive in cells. Raises `InvalidArgument` and `LimitExceeded`."""
        if attempt_id is None and holder is None:
            return None
        secret = self._membership.record.secret
        return Receive(
            0 if attempt_id is None else attempt_hash(_checked("attempt_id", attempt_id), secret),
            0 if holder is None else holder_hash(_checked("holder", holder), secret),
        )

    def holder(self, name: str | None) -> int | None:
        """A holder's name in cells. Raises `InvalidArgument` and `LimitExceeded`."""
        return (
            None
            if name is None
            else holder_hash(_checked("holder", name, "change_invisible_duration"), self._membership.record.secret)
        )

    @asynccontextmanager
    async def one_by_one(self, receive: Receive | None) -> AsyncIterator[None]:
        """Receives with one attempt id look and take one after the other."""
        if receive is None or not receive.attempt:
            yield
            return
        turn = self._turns.setdefault(receive.attempt, _Turn(asyncio.Lock()))
        turn.waiting += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[receive.attempt]

    def note(self, receive: Receive, queue: Queue, due_ms: int) -> None:
        """Note that a queue is asked, before anything is given."""
        if not receive.attempt:
            return
        handed = self._handed.setdefault(receive.attempt, {})
        handed[queue] = max(due_ms, handed.get(queue, 0))
        if len(self._handed) > self._room:
            self._forget()

    def forget(self, receive: Receive, queue: Queue) -> None:
        if (handed := self._handed.get(receive.attempt)) is not None:
            handed.pop(queue, None)
            if not handed:
                del self._handed[receive.attempt]

    def _forget(self) -> None:
        out = {queue: attempts_out(processor.keeper.cell) for queue, processor in self._queues.items()}
        now_ms = self._clock.wall_ms()
        for attempt, queues in list(self._handed.items()):
            if attempt in self._turns:
                continue
            for queue, due_ms in list(queues.items()):
                if attempt not in out[queue] if queue in out else due_ms <= now_ms:
                    del queues[queue]
            if not queues:
                del self._handed[attempt]
        self._room = max(_REMEMBERED, 2 * len(self._handed))

    async def again(self, receive: Receive | None) -> tuple[list[MessageView], int]:
        """The messages out to this attempt id and known here, and when the last is due. Raises what table and log raise."""
        if receive is None or not receive.attempt:
            return [], 0
        attempt = receive.attempt
        asked = set(self._handed.get(attempt, ()))
        asked.update(queue for queue, processor in self._queues.items() if attempt in processor.inherited)
        for processor in [self._queues[queue] for queue in sorted(asked & self._queues.keys())]:  # any may leave meanwhile
            await processor.drain_attempt(attempt)
        found = await self._found(sorted(asked), lambda one: one.attempt == attempt)
        messages = [message for one in found for message in await self._read(one.queue, one.cell, one.out)]
        return messages, max((due_ms for one in found for due_ms in one.out.dues_ms()), default=0)

    async def deliveries(self, holders: Iterable[str]) -> list[OutstandingDelivery]:
        """All that is out to some holders, for later calls of `again`."""
        secret = self._membership.record.secret
        names = {holder_hash(_checked("holder", holder, "deliveries"), secret): holder for holder in holders}
        queues = sorted((topic, queue) for topic, count in self._membership.queues.items() for queue in range(count))
        found = await self._found(queues, lambda one: one.holder in names)
        messages: defaultdict[tuple[int, int], list[MessageView]] = defaultdict(list)
        dues_ms: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for one in found:
            for (holder, attempt), part in one.out.by_receive().items():
                messages[holder, attempt] += await self._read(one.queue, one.cell, part)
                dues_ms[holder, attempt] += part.dues_ms()
                self.note(Receive(attempt), one.queue, max(part.dues_ms()))
        return [
            OutstandingDelivery(tuple(those), datetime.fromtimestamp(min(dues_ms[holder, attempt]) / 1000, UTC), names[holder])
            for (holder, attempt), those in messages.items()
            if those
        ]

    async def _found(self, queues: Iterable[Queue], is_meant: Callable[[Receive], bool]) -> list[_Found]:
        """The cells are read even of own queues: others may have acknowledged."""
        queues = list(queues)
        cells = await asyncio.gather(*(self._cell(queue) for queue in queues))
        now_ms = self._clock.wall_ms()
        found = [
            _Found(queue, cell, outstanding(cell, is_meant, now_ms))
            for queue, cell in zip(queues, cells, strict=True)
            if cell is not None and cell.generation >= self._membership.generation(*queue)
        ]
        return [one for one in found if one.out]

    async def _cell(self, queue: Queue) -> QueueCell | None:
        key = queue_key(self._group, *queue)
        stored = await self._cells.read(key)
        return None if stored is None else decode_cell(stored.data, where=key)

    async def _read(self, queue: Queue, cell: QueueCell, out: OutstandingMessages) -> list[MessageView]:
        (topic, number), record = queue, self._membership.record
        handles = ReceiptHandles(self._group, topic, number, cell.generation, record.secret)
        keep = filter_of_group(self._group, record.settings, topic)
        return await replayed_messages(self._membership.feed(topic), out, handles, keep=keep, epoch=cell.epoch)


def _checked(name: str, value: object, operation: str = "receive") -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{name} must be a text that is not empty", operation=operation, observed=repr(value))
    if len(value) > NAME_CHARS_MAX:
        raise LimitExceeded(
            f"{name} is too long", operation=operation, expected=f"at most {NAME_CHARS_MAX} characters", observed=len(value)
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{name} is no text that UTF-8 can say", operation=operation, observed=ascii(value)) from error
    return value
