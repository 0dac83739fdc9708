"""One queue of a SimpleConsumer: plan, write the cell, hand out, with the acknowledgements that gathered meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from msgspec import Struct

from ...coordinator.cells.requests import Waiter
from ...coordinator.groups.record import DeliveryOrder, GroupRecord
from ...coordinator.limits import CELL_BYTES_MAX
from ...coordinator.queues.cell import MessageState, QueueCell, Receive
from ...coordinator.queues.invisibility import Acknowledgement, Expiry, expired, returned
from ...coordinator.queues.keeper import CellFull, Change, QueueKeeper
from ...coordinator.queues.receipt_handle import ReceiptHandle, ReceiptRefused
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
from .dead_letter_task import REFUSED
from .processor import FOREIGN_LOOK_S, LETTERS_LOOK_S, ProcessorContext, QueueProcessor
from .settlements import Acknowledging, QueueSettlement, Settling, SettlingLost

log = logging.getLogger("penstock.consumers")

_FULL_BYTES = CELL_BYTES_MAX * 3 // 4
"""The size from which a cell has no room for more messages that are out."""
_OUT_BYTES = 32
"""A cell's bytes for a message that is out."""
_NAMED_BYTES = 64
"""A cell's bytes for one with a named receive."""
_LOOK_S = 5.0
"""The interval of looks for others' acknowledgements, while a message group waits."""
_ROUND_S = 1.0
"""The longest time for which steps are begun without a round of the queue's task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveContext(ProcessorContext):
    """The common part of one SimpleConsumer's queues."""

    in_flight: ReceivedInFlight
    arrived: Callable[[], None]
    is_awaited: Callable[[], bool]
    is_alone: Callable[[], bool]
    """Whether one call of the consumer is under way."""


class _PendingReceive(Struct, eq=False):
    most: int
    invisible_ms: int
    receive: Receive | None
    given: asyncio.Future[list[MessageView]]
    closed: asyncio.Future[None] | None = None
    """Done when a receive with an attempt id gets no more messages."""


class _Writing(Struct, eq=False):
    """A step on its way to the cell: up to two changes in one write, each of which may lack room."""

    schedule: ReceiveSchedule
    asked: Sequence[_PendingReceive]
    settlement: QueueSettlement
    step: Step
    given: list[list[MessageView]]
    planned_ms: int
    merges: int
    """The merges of the cell before."""
    ended: Callable[[_Writing], None] | None = None
    left: int = 0
    """The changes on their way."""
    too_large: CellFull | None = None
    """The error of what settles."""
    unwritten: CellFull | None = None
    """The error of what is handed out."""
    error: PenstockError | None = None


class _Part(Struct, eq=False):
    """One of its changes."""

    change: Change
    told: Callable[[PenstockError | None], None]
    is_over: bool = False

    def settle(self, _: QueueCell) -> None:
        self.told(None)

    def fail(self, error: PenstockError) -> None:
        self.told(error)


_NOTHING = Step()
"""The step of a write that only acknowledges. It stays empty."""

SettlingT = TypeVar("SettlingT", Acknowledging, Settling)


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
        self._settling: list[Acknowledging | Settling] = []
        self._resting = False
        """Whether the task waits to be woken, so that steps may begin without it."""
        self._hurried = False
        """Whether such a step begins at the end of this turn of the event loop."""
        self._quick: _Writing | None = None
        """Such a step on its way."""
        self._quick_over: Waiter[None] | None = None
        self._broken: Exception | None = None
        """What such a step raised, for the task."""
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
        if self._draining or self.ended.is_set() or self.keeper.ended.is_set() or self._around.worker.quiet or not self._has_room:
            return 0
        schedule = self.schedule
        found = schedule.in_memory if schedule.is_calm else schedule.available(self._clock.wall_ms())
        for one in self._asked:
            found -= one.most
        return max(0, found)

    @property
    def out(self) -> int:
        """Tracked messages, and message groups, that are out."""
        cell = self.keeper.cell
        return sum(
            one.state is MessageState.OUT for one in (*cell.tries.values(), *(marker.tries for marker in cell.markers.values()))
        )

    def ask(self, most: int, invisible_ms: int, receive: Receive | None = None) -> asyncio.Future[list[MessageView]]:
        """Ask for up to ``most`` messages, given once they are durably out. After a late cancel, `give_back` applies."""
        asked = _PendingReceive(most, invisible_ms, receive, asyncio.get_running_loop().create_future())
        if self.ended.is_set():
            asked.given.set_result([])
        else:
            if receive is not None and receive.attempt:
                asked.closed = self._track_cancelled(receive.attempt)
            self._asked.append(asked)
            self._hurry()
        return asked.given

    async def drain_attempt(self, attempt: int) -> None:
        while pending := [over for over, of in self._cancelled.items() if of == attempt]:
            await asyncio.wait(pending)

    def _track_cancelled(self, attempt: int) -> asyncio.Future[None]:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cancelled[over] = attempt
        over.add_done_callback(self._cancelled.pop)
        return over

    def settle(self, handles: Sequence[ReceiptHandle], change: Callable[[QueueCell], QueueCell]) -> asyncio.Future[None]:
        """Done once the change, in the order of calls, is durable. Raises `ReceiptRefused`, and `OwnershipLost` where that is unknown."""
        return self._settle(Settling(change=change, handles=handles)).done

    def acknowledge(self, acks: Sequence[Acknowledgement]) -> asyncio.Future[Mapping[int, ReceiptRefused]]:
        """The refusals by place, once all others are durable. Raises `OwnershipLost` where that is unknown."""
        return self._settle(Acknowledging(acks=acks)).done

    def _settle(self, settling: SettlingT) -> SettlingT:
        if self.ended.is_set():
            settling.fail(self._lost())
        else:
            self._settling.append(settling)
            self._hurry()
        return settling

    def give_back(self, messages: Sequence[MessageView], receive: Receive | None = None) -> None:
        """Make a cancelled receive's messages visible again. Those of a receive with an attempt id stay out to it, as it may be repeated."""
        self._around.in_flight.end(message.receipt_handle for message in messages)
        if receive is not None and receive.attempt:
            return
        for message in messages:
            handle = ReceiptHandle.decode(message.receipt_handle)
            settling = Settling(change=partial(returned, handle=handle), handles=(handle,))
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
            if (writing := self._quick) is not None:
                writing.ended = self._quick = None
                self._not_given(writing.given)
                self._fail(writing.asked, writing.settlement.settling)
            self._fail(self._asked, self._settling)

    async def _go_on(self) -> None:
        while True:
            self._woken.clear()
            if self._obeyed is not self._record:
                await self._obey()
            await self._look(self._clock.wall_ms())
            await self._step()
            if self._draining and not self._settling:
                await self._release()
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
        _close(asked)

    async def _take_pending(self) -> list[_PendingReceive]:
        worker = self._around.worker
        if self._asked:
            await worker.awake()
        asked, self._asked = self._asked, []
        if self._draining or worker.quiet or self.schedule.closed:
            self._fail(asked, ())
        _close(one for one in asked if one.given.done())
        return [one for one in asked if not one.given.done()]

    async def _write(self, asked: Sequence[_PendingReceive], settling: Sequence[Acknowledging | Settling]) -> None:
        now_ms = self._clock.wall_ms()
        lapses = self._lapses(now_ms)
        settlement = self._settlement(settling, self._expirer(now_ms) if lapses else None)
        writing = self._planned(asked, settlement, now_ms)
        settles = await self._would_do(writing.settlement) or lapses
        written = Waiter[None]()
        self._begin(writing, lambda _: written.settle(None), settles=settles)
        try:
            await written.done
        except BaseException:
            writing.ended = None
            self._not_given(writing.given)
            raise
        self._end(writing)

    def _planned(self, asked: Sequence[_PendingReceive], settlement: QueueSettlement, now_ms: int) -> _Writing:
        schedule = self.schedule
        wants = self._wants(asked, now_ms)
        step, given = schedule.plan(now_ms, wants)
        sealed = schedule.take_handles()
        for want, messages in zip(wants, given, strict=True):
            self._around.in_flight.begin(self._together(messages), want.due_ms, sealed)
        settlement.caught_up = self._caught_up(settlement.settling)
        return _Writing(schedule, asked, settlement, step, given, now_ms, self.keeper.merges)

    def _settlement(
        self, settling: Sequence[Acknowledging | Settling], expire: Callable[[QueueCell], Expiry] | None = None
    ) -> QueueSettlement:
        write = self._around.runtime.random.getrandbits(64) if settling else 0
        return QueueSettlement(write, settling, expire)

    def _begin(self, writing: _Writing, ended: Callable[[_Writing], None], *, settles: bool) -> None:
        """Make the changes of a step by one write, and hear of its end, perhaps before this returns."""
        writing.ended = ended
        if writing.step.letters:
            self._dead_letters.give_up(writing.step.letters)
        if writing.settlement.settling:
            tried = UncertainWrite(writing.settlement.write, self.keeper.cell.ack_writes)
            for waiting in writing.settlement.settling:
                waiting.tried = tried
        parts = [_Part(writing.settlement.apply, partial(self._told, writing, settles=True))] if settles else []
        if writing.step is not _NOTHING and not writing.step.is_empty:
            parts.append(_Part(writing.step.apply, partial(self._told, writing, settles=False)))
        writing.left = len(parts)
        if parts:
            self.keeper.carry_out(*parts)
        else:
            ended(writing)

    def _told(self, writing: _Writing, error: PenstockError | None, *, settles: bool) -> None:
        if error is None:
            self._counters.cell_writes.add()
        elif not isinstance(error, CellFull):
            writing.error = error
        elif settles:
            writing.too_large = error
        else:
            writing.unwritten = error
        writing.left -= 1
        if not writing.left and writing.ended is not None:
            writing.ended(writing)

    def _end(self, writing: _Writing) -> None:
        """Answer those who wait for a step. Raises the error of its write."""
        schedule, settlement, step = writing.schedule, writing.settlement, writing.step
        if writing.error is not None:
            self._not_given(writing.given)
            raise writing.error
        if writing.unwritten is not None:
            self._not_given(writing.given)
            log.warning("group %s, %s queue %d: %s", *self._where, writing.unwritten)
            self._full_bytes = min(self._full_bytes, self.keeper.size_bytes)
            self.schedule = schedule = self._begin_schedule(self.keeper.cell)
            self._fail(writing.asked, ())
        elif step is not _NOTHING:
            if not step.is_empty:
                self._full_bytes = _FULL_BYTES
            self._carry_on(step)
            for one, messages in zip(writing.asked, writing.given, strict=True):
                self._hand_out(one, messages, writing.planned_ms + one.invisible_ms)
        if writing.too_large is not None:
            self._fail((), writing.settlement.settling, writing.too_large)
        else:
            if settlement.refused:
                self._note(settlement.refused, error="Refused", text=REFUSED)
            if settlement.lapses:
                self._note(settlement.lapses)
            for settled in writing.settlement.settling:
                settled.end()
        acks = [one for one in settlement.settling if isinstance(one, Acknowledging)]
        if settlement.lapses or self.keeper.merges != writing.merges or len(acks) < len(settlement.settling):
            schedule.adopt(self.keeper.cell)
        elif acks:
            schedule.adopt_settled(self.keeper.cell, [ack.handle for one in acks for ack in one.acks])

    # --- Steps without the task, which takes turns of the event loop and a look at all that may concern a queue

    def _hurry(self) -> None:
        """Begin a step with all that is asked in this turn of the event loop; of a lone caller, at once."""
        if not self._resting:
            self._woken.set()
        elif self._around.is_alone():
            self._begin_quickly()
        elif not self._hurried:
            self._hurried = True
            asyncio.get_running_loop().call_soon(self._begin_quickly)

    def _begin_quickly(self) -> None:
        self._hurried = False
        asked, settling = self._asked, self._settling
        if self._quick is not None or not (asked or settling):
            return  # its end looks again
        try:
            if not self._may_begin_quickly():
                self._woken.set()
                return
            settlement = self._settlement(settling)
            if settling:
                settlement.apply(self.keeper.cell)
                if not settlement.accepts:
                    self._woken.set()  # the cell is read again before all are refused
                    return
            self._asked, self._settling = [], []
            if asked:
                writing = self._planned(asked, settlement, self._clock.wall_ms())
            else:  # nothing else is to be planned
                settlement.caught_up = self._caught_up(settling)
                writing = _Writing(self.schedule, (), settlement, _NOTHING, [], 0, self.keeper.merges)
            self._quick = writing
            self._begin(writing, self._end_quickly, settles=bool(settling))
        except Exception as error:  # noqa: BLE001 - the task raises it
            self._fail(asked, settling)
            self._broken, self._quick = error, None
            self._woken.set()

    def _may_begin_quickly(self) -> bool:
        """Whether nothing is to be done but to hand out fresh messages, and to acknowledge."""
        worker = self._around.worker
        return (
            self._resting
            and not self._woken.is_set()
            and not self._draining
            and self._obeyed is self._record
            and not worker.quiet
            and (worker.is_awake or not self._asked)
            and self.schedule.is_calm
            and not self.schedule.closed
            and self._has_room
            and not [one for one in self._settling if not isinstance(one, Acknowledging)]
            and not [one for one in self._asked if one.given.done()]  # others wait for what a cancelled one gets no more
        )

    def _end_quickly(self, writing: _Writing) -> None:
        self._quick = None
        try:
            self._end(writing)
        except Exception as error:  # noqa: BLE001 - the task raises it
            self._fail(writing.asked, writing.settlement.settling)
            self._broken = error
            self._woken.set()
        _close(writing.asked)
        if writing.asked:
            self._around.freed()
            self._wake_after(_ROUND_S)
        if not (self._has_room and self.schedule.is_calm):
            self._woken.set()
        if self._quick_over is not None:
            self._quick_over.settle(None)
            self._quick_over = None
        elif self._asked or self._settling:
            self._hurry()  # with what those ask in this turn who were answered now

    async def _rest(self) -> None:
        self._resting = True
        try:
            await super()._rest()
        finally:
            self._resting = False
        if self._quick is not None:
            self._quick_over = Waiter[None]()
            await self._quick_over.done
        if self._broken is not None:
            raise self._broken

    def _together(self, messages: Sequence[MessageView]) -> Iterable[Sequence[str]]:
        """Messages that become visible together share a list."""
        is_orderly = self._record.settings.delivery_order is DeliveryOrder.ORDERLY
        if not is_orderly or len({message.message_group for message in messages}) == len(messages):
            return zip([message.receipt_handle for message in messages])
        lanes: dict[str | None, list[str]] = {}
        for message in messages:
            lanes.setdefault(message.message_group, []).append(message.receipt_handle)
        return lanes.values()

    def _not_given(self, given: Sequence[Sequence[MessageView]]) -> None:
        for messages in given:
            self._around.in_flight.end(message.receipt_handle for message in messages)

    def _expirer(self, now_ms: int) -> Callable[[QueueCell], Expiry]:
        settings = self._record.settings
        return lambda cell: self._dead_letters.foresee(expired(cell, now_ms, settings))

    def _caught_up(self, settling: Sequence[Acknowledging | Settling]) -> set[int]:
        blocked, next_fresh = self.schedule.blocked, self.schedule.next_fresh
        if not settling or not len(blocked):
            return set()
        lanes = {handle.lane for one in settling for handle in one.handles if handle.lane is not None}
        return {lane for lane in lanes if blocked.has_caught_up(lane, next_fresh)}

    def _wants(self, asked: Sequence[_PendingReceive], now_ms: int) -> list[ReceiveRequest]:
        left, wants = self._room_bytes(), []
        for one in asked:
            each = _OUT_BYTES if one.receive is None else _NAMED_BYTES
            wants.append(ReceiveRequest(min(one.most, left // each), now_ms + one.invisible_ms, one.receive))
            left -= wants[-1].most * each
        return wants

    @property
    def _has_room(self) -> bool:
        """Whether a message more may be out."""
        return self._full_bytes - self.keeper.size_bytes >= _NAMED_BYTES

    def _room_bytes(self) -> int:
        return max(0, self._full_bytes - self.keeper.size_bytes)

    async def _would_do(self, settlement: QueueSettlement) -> bool:
        """Whether any can be carried out; the cell is read again before all are refused."""
        if not settlement.settling:
            return False
        settlement.apply(self.keeper.cell)
        if not settlement.accepts:
            with suppress(RetryError):
                await self.keeper.look()
            settlement.apply(self.keeper.cell)
        return settlement.accepts

    def _hand_out(self, asked: _PendingReceive, messages: list[MessageView], due_ms: int) -> None:
        if asked.given.done():
            self.give_back(messages, asked.receive)
            return
        if messages and (self._clock.wall_ms() >= due_ms or not self._around.member.may_start()):
            self._not_given([messages])  # the process stood still since: another owner may have given them to others
            messages = []
        self._counters.messages_out.add(len(messages))
        self._counters.bytes_out.add(sum([len(message.body or b"") for message in messages]))
        asked.given.set_result(messages)

    def _carry_on(self, step: Step) -> None:
        if step.letters:
            self._dead_letters.wake()
        for head in step.parked:
            self._log_parked(head.offset, head)

    def _fail(
        self, asked: Sequence[_PendingReceive], settling: Sequence[Acknowledging | Settling], error: PenstockError | None = None
    ) -> None:
        for one in asked:
            if not one.given.done():
                one.given.set_result([])
        _close(asked)
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


def _close(asked: Iterable[_PendingReceive]) -> None:
    for one in asked:
        if one.closed is not None and not one.closed.done():
            one.closed.set_result(None)


def _heard(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
