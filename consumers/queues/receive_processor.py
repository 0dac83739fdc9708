"""One queue of a SimpleConsumer: plan, write the cell, hand out, with the acknowledgements that gathered meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from ...coordinator.cells.requests import Request, Waiter
from ...coordinator.groups.record import DeliveryOrder, GroupRecord
from ...coordinator.limits import CELL_BYTES_MAX
from ...coordinator.queues.cell import MessageState, QueueCell, Receive
from ...coordinator.queues.invisibility import (
    Acknowledgement,
    ExpiredDelivery,
    Expiry,
    acknowledged_all,
    expired,
    returned,
    without_caught_up,
)
from ...coordinator.queues.keeper import CellFull, Change, OwnershipLost, QueueKeeper
from ...coordinator.queues.receipt_handle import DeadLettersWait, ReceiptHandle, ReceiptRefused
from ...coordinator.queues.receives import attempts_out
from ...coordinator.queues.remote_acks import UncertainWrite
from ...coordinator.workers.in_flight import ReceivedInFlight
from ...log.errors import PenstockError, RetryError
from ...log.message.message import MessageView
from ..dead_letters.writer import DeadLetterWriter
from ..feed.feed import Feed
from ..schedule.receive import ReceiveSchedule
from ..schedule.receive_request import ReceiveRequest
from ..schedule.step import Step
from ..statistics import TopicCounters
from .processor import DEAD_LETTERS_S, FOREIGN_LOOK_S, LETTERS_LOOK_S, ProcessorContext, QueueProcessor

log = logging.getLogger("penstock.consumers")

_FULL_BYTES = CELL_BYTES_MAX * 3 // 4
"""The size from which a cell has no room for more messages that are out."""
_OUT_BYTES = 32
"""A cell's bytes for a message that is out."""
_NAMED_BYTES = 64
"""A cell's bytes for one with a named receive."""
_LOOK_S = 5.0
"""The interval of looks for others' acknowledgements, while a message group waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveContext(ProcessorContext):
    """The common part of one SimpleConsumer's queues."""

    in_flight: ReceivedInFlight
    arrived: Callable[[], None]
    is_awaited: Callable[[], bool]


class SettlingLost(OwnershipLost):
    """The queue was lost before it was known whether an acknowledgement is durable."""

    kind = "settling_lost"
    tried: UncertainWrite | None = None


@dataclass(slots=True)
class _PendingReceive:
    most: int
    invisible_ms: int
    receive: Receive | None
    given: asyncio.Future[list[MessageView]]
    closed: asyncio.Future[None]
    """Done when the receive gets no more messages."""


@dataclass(slots=True, kw_only=True)
class _Acknowledging(Waiter[Mapping[int, ReceiptRefused]]):
    """Acknowledgements of one call. Its result: the refusals by place."""

    acks: Sequence[Acknowledgement]
    refusals: dict[int, ReceiptRefused] = field(default_factory=dict)
    tried: UncertainWrite | None = None

    @property
    def handles(self) -> Iterator[ReceiptHandle]:
        return (ack.handle for ack in self.acks)

    def end(self) -> None:
        self.settle(self.refusals)


@dataclass(slots=True, kw_only=True)
class _Settling(Request[QueueCell, None]):
    handles: Sequence[ReceiptHandle]
    tried: UncertainWrite | None = None

    def apply(self, cell: QueueCell) -> QueueCell:
        self.refusal = None
        try:
            return self.change(cell)
        except (ReceiptRefused, DeadLettersWait) as refusal:
            self.refusal = refusal
            return cell

    def end(self) -> None:
        self.settle(None)


@dataclass(slots=True)
class _Change:
    write: int
    settling: Sequence[_Acknowledging | _Settling]
    expire: Callable[[QueueCell], Expiry] | None
    """None: nothing is due."""
    caught_up: set[int]
    expiry: Expiry = field(default_factory=lambda: Expiry(QueueCell()))
    refused: list[ExpiredDelivery] = field(default_factory=list)

    def apply(self, cell: QueueCell) -> QueueCell:
        before, self.refused = cell, []
        together: list[_Acknowledging] = []
        for one in self.settling:
            if isinstance(one, _Acknowledging):
                together.append(one)
                continue
            cell, together = _acknowledge(cell, together), []
            after = one.apply(cell)
            self.refused += _refused(cell, after, one.handles)
            cell = after
        cell = _acknowledge(cell, together)
        if cell is not before:
            cell = cell.with_ack(self.write)
        if self.expire is not None:
            self.expiry = self.expire(cell)
            cell = self.expiry.cell
        return without_caught_up(cell, self.caught_up) if self.caught_up else cell


SettlingT = TypeVar("SettlingT", _Acknowledging, _Settling)


class ReceiveProcessor(QueueProcessor[ReceiveSchedule]):
    """Hands out the messages of one queue, and settles them: plan, write the cell, hand out."""

    _around: ReceiveContext

    def __init__(
        self,
        around: ReceiveContext,
        keeper: QueueKeeper,
        feed: Feed,
        writer: DeadLetterWriter,
        counters: TopicCounters,
        *,
        topic: str,
        queue: int,
        record: GroupRecord,
    ) -> None:
        super().__init__(around, keeper, feed, writer, counters, topic=topic, queue=queue, record=record)
        self._asked: list[_PendingReceive] = []
        self._settling: list[_Acknowledging | _Settling] = []
        self._full_bytes = _FULL_BYTES
        self.inherited = attempts_out(keeper.cell)
        self._cancelled: dict[asyncio.Future[None], int] = {}

    def _new_schedule(self, cell: QueueCell) -> ReceiveSchedule:
        return ReceiveSchedule(
            self._record.settings,
            cell,
            limits=self._around.limits,
            group=self._around.group,
            topic=self.topic,
            queue=self.queue,
            secret=self._record.secret,
        )

    # --- What receives and acknowledgements ask -----------------------------------------------------------------------------------

    def available(self) -> int:
        if self._draining or self.ended.is_set() or self.keeper.ended.is_set() or self._around.worker.quiet or not self._room_out():
            return 0
        asked = sum(one.most for one in self._asked)
        return max(0, self.schedule.available(self._clock.wall_ms()) - asked)

    @property
    def out(self) -> int:
        """Tracked messages, and message groups, that are out."""
        cell = self.keeper.cell
        return sum(
            one.state is MessageState.OUT for one in (*cell.tries.values(), *(marker.tries for marker in cell.markers.values()))
        )

    def ask(self, most: int, invisible_ms: int, receive: Receive | None = None) -> asyncio.Future[list[MessageView]]:
        """Ask for up to ``most`` messages, given once they are durably out. After a late cancel, `give_back` applies."""
        loop = asyncio.get_running_loop()
        asked = _PendingReceive(most, invisible_ms, receive, loop.create_future(), loop.create_future())
        if self.ended.is_set():
            asked.given.set_result([])
        else:
            self._track_cancelled(asked.closed, receive)
            self._asked.append(asked)
            self._woken.set()
        return asked.given

    async def drain_attempt(self, attempt: int) -> None:
        while pending := [over for over, of in self._cancelled.items() if of == attempt]:
            await asyncio.wait(pending)

    def _track_cancelled(self, over: asyncio.Future[None], receive: Receive | None) -> None:
        if receive is not None and receive.attempt:
            self._cancelled[over] = receive.attempt
            over.add_done_callback(self._cancelled.pop)

    def settle(self, handles: Sequence[ReceiptHandle], change: Callable[[QueueCell], QueueCell]) -> asyncio.Future[None]:
        """Done once the change, in the order of calls, is durable. Raises `ReceiptRefused`, and `OwnershipLost` where that is unknown."""
        return self._settle(_Settling(change=change, handles=handles)).done

    def acknowledge(self, acks: Sequence[Acknowledgement]) -> asyncio.Future[Mapping[int, ReceiptRefused]]:
        """The refusals by place, once all others are durable. Raises `OwnershipLost` where that is unknown."""
        return self._settle(_Acknowledging(acks=acks)).done

    def _settle(self, settling: SettlingT) -> SettlingT:
        if self.ended.is_set():
            settling.fail(self._lost())
        else:
            self._settling.append(settling)
            self._woken.set()
        return settling

    def give_back(self, messages: Sequence[MessageView], receive: Receive | None = None) -> None:
        """Make a cancelled receive's messages visible again. Those of a receive with an attempt id stay out to it, as it may be repeated."""
        self._around.in_flight.end(message.receipt_handle for message in messages)
        if receive is not None and receive.attempt:
            return
        for message in messages:
            handle = ReceiptHandle.decode(message.receipt_handle)
            settling = _Settling(change=partial(returned, handle=handle), handles=(handle,))
            settling.done.add_done_callback(_heard)
            self._settling.append(settling)
        if self.ended.is_set():
            self._fail((), self._settling)  # they come back when they are due
        self._woken.set()

    # --- Its life -----------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            self._fail(self._asked, self._settling)

    async def _go_on(self) -> None:
        while True:
            self._woken.clear()
            if self._obeyed is not self._record:
                await self._obey()
            await self._look(self._clock.wall_ms())
            await self._step()
            if self._draining and not self._settling:
                await self._dead_letters.finish(DEAD_LETTERS_S)
                await self.keeper.release()
                self._counters.hand_overs.add()
                return
            self._around.freed()
            if self.available():
                self._around.arrived()
            await self._rest()

    async def _step(self) -> None:
        asked = await self._take_pending()
        settling, self._settling = self._settling, []
        try:
            await self._write(asked, settling)
        except BaseException:
            self._fail(asked, settling)
            raise
        _end(asked)

    async def _take_pending(self) -> list[_PendingReceive]:
        worker = self._around.worker
        if self._asked:
            await worker.awake()
        asked, self._asked = self._asked, []
        if self._draining or worker.quiet:
            self._fail(asked, ())
        _end(one for one in asked if one.given.done())
        return [one for one in asked if not one.given.done()]

    async def _write(self, asked: Sequence[_PendingReceive], settling: Sequence[_Acknowledging | _Settling]) -> None:
        schedule, now_ms = self.schedule, self._clock.wall_ms()
        wants = self._wants(asked, now_ms)
        step, given = schedule.plan(now_ms, wants)
        sealed = schedule.take_handles()
        for want, messages in zip(wants, given, strict=True):
            self._around.in_flight.begin(self._together(messages), want.due_ms, sealed)
        write = self._around.runtime.random.getrandbits(64) if settling else 0
        lapses = self._lapses(now_ms)
        change = _Change(write, settling, self._expirer(now_ms) if lapses else None, self._caught_up(settling))
        settles = await self._would_do(settling) or lapses
        self._dead_letters.give_up(step.letters)
        for waiting in settling:
            waiting.tried = UncertainWrite(write, self.keeper.cell.ack_writes)
        try:
            too_large, unwritten = await self._both(change.apply if settles else None, None if step.is_empty else step.apply)
        except BaseException:
            self._not_given(given)
            raise
        if unwritten is not None:
            self._not_given(given)
            log.warning("group %s, %s queue %d: %s", *self._where, unwritten)
            self._full_bytes = min(self._full_bytes, self.keeper.size_bytes)
            self.schedule = schedule = self._new_schedule(self.keeper.cell)
            self._fail(asked, ())
        else:
            if not step.is_empty:
                self._full_bytes = _FULL_BYTES
            self._carry_on(step)
            for one, messages in zip(asked, given, strict=True):
                self._hand_out(one, messages)
        if too_large is not None:
            self._fail((), settling, too_large)
        else:
            self._note([*change.refused, *change.expiry.lapses])
            for settled in settling:
                settled.end()
        schedule.adopt(self.keeper.cell)

    def _together(self, messages: Sequence[MessageView]) -> list[list[str]]:
        """Messages that become visible together share a list."""
        if self._record.settings.delivery_order is not DeliveryOrder.ORDERLY:
            return [[message.receipt_handle] for message in messages]
        lanes: dict[str | None, list[str]] = {}
        for message in messages:
            lanes.setdefault(message.message_group, []).append(message.receipt_handle)
        return list(lanes.values())

    def _not_given(self, given: Sequence[Sequence[MessageView]]) -> None:
        for messages in given:
            self._around.in_flight.end(message.receipt_handle for message in messages)

    def _expirer(self, now_ms: int) -> Callable[[QueueCell], Expiry]:
        settings = self._record.settings
        return lambda cell: self._dead_letters.foresee(expired(cell, now_ms, settings))

    async def _both(self, one: Change | None, other: Change | None) -> tuple[CellFull | None, CellFull | None]:
        """Make two changes by one write. Returns each one's error for lack of room."""
        if one is None or other is None:
            return await self._change(one), await self._change(other)
        return await asyncio.gather(self._change(one), self._change(other))

    async def _change(self, change: Change | None) -> CellFull | None:
        if change is not None:
            try:
                await self.keeper.change(change)
            except CellFull as error:
                return error
            self._counters.cell_writes.add()
        return None

    def _caught_up(self, settling: Sequence[_Acknowledging | _Settling]) -> set[int]:
        schedule = self.schedule
        lanes = {handle.lane for one in settling for handle in one.handles if handle.lane is not None}
        return {lane for lane in lanes if schedule.blocked.has_caught_up(lane, schedule.next_fresh)}

    def _wants(self, asked: Sequence[_PendingReceive], now_ms: int) -> list[ReceiveRequest]:
        left, wants = self._room_bytes(), []
        for one in asked:
            each = _OUT_BYTES if one.receive is None else _NAMED_BYTES
            wants.append(ReceiveRequest(min(one.most, left // each), now_ms + one.invisible_ms, one.receive))
            left -= wants[-1].most * each
        return wants

    def _room_out(self) -> int:
        left = self._room_bytes()
        return left // _OUT_BYTES if left >= _NAMED_BYTES else 0

    def _room_bytes(self) -> int:
        return max(0, self._full_bytes - self.keeper.size_bytes)

    async def _would_do(self, settling: Sequence[_Acknowledging | _Settling]) -> bool:
        """Whether any can be carried out; the cell is read again before all are refused."""
        if not settling or self._does_any(settling):
            return bool(settling)
        with suppress(RetryError):
            await self.keeper.look()
        return self._does_any(settling)

    def _does_any(self, settling: Sequence[_Acknowledging | _Settling]) -> bool:
        cell = self.keeper.cell
        return any(_accepts(cell, one) for one in settling)

    def _hand_out(self, asked: _PendingReceive, messages: list[MessageView]) -> None:
        if asked.given.done():
            self.give_back(messages, asked.receive)
            return
        self._counters.messages_out.add(len(messages))
        self._counters.bytes_out.add(sum(len(message.body or b"") for message in messages))
        asked.given.set_result(messages)

    def _carry_on(self, step: Step) -> None:
        if step.letters:
            self._dead_letters.wake()
        for head in step.parked:
            self._log_parked(head.offset, head)

    def _fail(
        self, asked: Sequence[_PendingReceive], settling: Sequence[_Acknowledging | _Settling], error: PenstockError | None = None
    ) -> None:
        for one in asked:
            if not one.given.done():
                one.given.set_result([])
        _end(asked)
        for other in settling:
            other.fail(error or self._lost(other.tried))

    def _lost(self, tried: UncertainWrite | None = None) -> SettlingLost:
        lost = SettlingLost("the queue is not this consumer's any more", operation="acknowledge", object=self.keeper.key)
        lost.tried = tried
        return lost

    def _look_pause_s(self, now_ms: int) -> float | None:
        foreign_s = super()._look_pause_s(now_ms)
        if foreign_s == FOREIGN_LOOK_S:
            return foreign_s
        if self._around.is_awaited() and self.schedule.blocked.holds_back(self.schedule.next_fresh):
            return _LOOK_S
        return foreign_s if self.schedule.next_expiry_ms() is None else LETTERS_LOOK_S


def _accepts(cell: QueueCell, settling: _Acknowledging | _Settling) -> bool:
    """If not, its refusals are noted."""
    if isinstance(settling, _Acknowledging):
        return any(not acknowledged_all(cell, (ack,))[1] for ack in settling.acks) or _acknowledge(cell, [settling]) is not cell
    settling.apply(cell)
    return settling.refusal is None


def _acknowledge(cell: QueueCell, together: Sequence[_Acknowledging]) -> QueueCell:
    if not together:
        return cell
    after, refusals = acknowledged_all(cell, [ack for one in together for ack in one.acks])
    first = 0
    for one in together:
        limit = first + len(one.acks)
        one.refusals = {place - first: refusal for place, refusal in refusals.items() if first <= place < limit}
        first = limit
    return after


def _refused(before: QueueCell, after: QueueCell, handles: Sequence[ReceiptHandle]) -> Iterator[ExpiredDelivery]:
    for handle in handles:
        marker = None if handle.lane is None else after.markers.get(handle.lane)
        if after.dead_letters.next_sequence > before.dead_letters.next_sequence:
            yield ExpiredDelivery(handle.offset, handle.attempt, given_up=True)
        elif marker is not None and marker.tries.state is MessageState.PARKED and after is not before:
            yield ExpiredDelivery(handle.offset, handle.attempt, parked=True)


def _end(asked: Iterable[_PendingReceive]) -> None:
    for one in asked:
        if not one.closed.done():
            one.closed.set_result(None)


def _heard(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
