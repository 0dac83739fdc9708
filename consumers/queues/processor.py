"""One queue in its owner, from its taking to its release or loss."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from ...coordinator.cells.cells import Cells
from ...coordinator.groups.record import DeliveryOrder, GroupRecord
from ...coordinator.queues.cell import LogWitness, QueueCell
from ...coordinator.queues.commands import caught_up, waits_for_room
from ...coordinator.queues.invisibility import ExpiredDelivery, Expiry, expired, last_expiry_ms
from ...coordinator.queues.keeper import CellFull, OwnershipLost, QueueKeeper
from ...coordinator.queues.offsets import OffsetSet
from ...coordinator.queues.restores import (
    InconsistentRestore,
    agrees,
    inconsistent,
    is_ahead,
    of_another_log,
    of_another_record,
    seen,
)
from ...coordinator.registry.failures import failures_of
from ...coordinator.registry.former_work import NOTHING, FormerWork, read_former_work
from ...coordinator.registry.spill_objects import SpillObjects
from ...coordinator.workers.worker import SessionMember, Worker
from ...log.errors import DataDamaged, OffsetOutOfRange, ReopenError, RetryError, TopicDeleted
from ...log.format.growth import former_queues
from ...log.format.state import TopicState
from ...log.message.message import MessageView
from ...log.runtime.backoff import Backoff, wait_for
from ...log.runtime.runtime import Runtime
from ...log.stores.protocol import ObjectStore
from ..dead_letters.group_filter import filter_of_group
from ..dead_letters.writer import DeadLetterWriter
from ..failures.failure_notes import LAPSED, FailureNotes
from ..feed.feed import Feed
from ..feed.lazy_messages import LazyMessages
from ..feed.rows import gone, missing_of
from ..limits import QueueLimits
from ..schedule.protocol import QueueSchedule
from ..statistics import TopicCounters
from .dead_letter_task import NOT_ACKNOWLEDGED, DeadLetterTask
from .lag import MessageAges, queue_lag
from .message_reloader import MessageReloader
from .spill_task import SpillTask

log = logging.getLogger("penstock.consumers")

DEAD_LETTERS_S = 1.0
"""The time for which a queue is kept for its dead letters."""
FAILURES_S = 0.5
"""The same for the reasons of failures."""
_FETCH_ROWS_MAX = 10_000
_SMALL = 2
"""A fetch is small below this inverse share of what is in memory."""
_ROOM_GROWS_S = 0.005
"""The first wait for more room for a small fetch; doubled each time."""
_ROOM_WAIT_MAX_S = 0.04
_ROOM_WAITS_S = 1.0
"""The longest such wait."""
_LEASE_LOOK_S = 0.1
"""The time after which a suspended process checks its lease, before its own timers do."""
_TROUBLE_S = 0.2
_PARTING_S = 1.0
"""The time for a deleted topic's dead letters."""
_FULL_S = 1.0
_CROWDED_MS = 1_000
"""The interval of looks at messages to be given up without room."""
FOREIGN_LOOK_S = 1.0
"""The interval of looks while messages of an earlier owner are out."""
LETTERS_LOOK_S = 10.0
"""The longer interval otherwise."""

ScheduleT = TypeVar("ScheduleT", bound=QueueSchedule)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorContext:
    """The common part of one consumer's queues."""

    group: str
    runtime: Runtime
    store: ObjectStore
    cells: Cells
    worker: Worker
    member: SessionMember
    room: Callable[[QueueProcessor[Any]], tuple[int, int]]
    freed: Callable[[], None]
    on_expired: Literal["skip", "stop"] = "skip"
    """The action on expired messages."""
    limits: QueueLimits


class QueueProcessor(Generic[ScheduleT]):
    """The life of a queue, from its taking to its release or loss; `_go_on` handles its messages."""

    def __init__(
        self,
        around: ProcessorContext,
        keeper: QueueKeeper,
        feed: Feed,
        writer: DeadLetterWriter,
        counters: TopicCounters,
        *,
        topic: str,
        queue: int,
        record: GroupRecord,
    ) -> None:
        self._around = around
        self._clock = around.runtime.clock
        self.keeper = keeper
        self._feed = feed
        self._failures = FailureNotes(
            failures_of(around.cells, self._clock, around.group, topic, queue),
            self._clock,
            worker=around.member.id,
            process=around.worker.label,
        )
        self._dead_letters = DeadLetterTask(writer, counters, self._failures, topic=topic, queue=queue, moved=self.wake)
        self._rereading = MessageReloader(
            feed, group=around.group, topic=topic, queue=queue, epoch=keeper.epoch, moved=self._look_again
        )
        objects = SpillObjects(around.store, around.runtime, around.group, topic, queue)
        self._spilling = SpillTask(objects, around.limits, schedule=lambda: self.schedule, moved=self.wake)
        self._counters = counters
        self.topic, self.queue = topic, queue
        self._record = self._taken_by = record
        self._noticed = asyncio.Event()
        self._keep = filter_of_group(around.group, record.settings, topic)
        self._obeyed: GroupRecord | None = None
        orderly = record.settings.delivery_order is DeliveryOrder.ORDERLY
        self._former = list(former_queues(feed.topic.tail.state.growths, queue)) if orderly else []
        """The queues, with their marks, that its message groups had before."""
        self._left = self._unknown_left()
        """What is left in them, as far as is known."""
        self._left_anew, self._left_wanted = asyncio.Event(), asyncio.Event()
        self.schedule = self._begin_schedule(keeper.cell)
        self.bytes_per_message = 256.0
        self.starving = False
        """Whether nothing is fetched for lack of room."""
        self.cramped = False
        """Whether it is the cell that has none, until more is settled."""
        self.ages, self.arrivals = MessageAges(), MessageAges()
        """Times of storing, and of arrival by the monotonic clock."""
        self._draining = False
        self._foreign_ms = last_expiry_ms(keeper.cell)
        self._look_s = self._clock.monotonic_s()
        self._expiry_ms = 0
        """The time before which nothing comes back, for lack of room."""
        self._adopted = keeper.cell
        self._letters_seen = keeper.cell.dead_letters.next_sequence
        self._witness: tuple[TopicState, str, LogWitness] | None = None
        self._woken = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._anew = asyncio.Event()
        self.ended = asyncio.Event()

    def _new_schedule(self, cell: QueueCell) -> ScheduleT:
        raise NotImplementedError

    def _begin_schedule(self, cell: QueueCell) -> ScheduleT:
        schedule = self._new_schedule(cell)
        schedule.wait_for(self._left)
        return schedule

    async def _go_on(self) -> None:
        raise NotImplementedError

    def _abandon(self) -> None:
        """Start nothing more of the runs that this schedule gave out."""

    # --- From outside -----------------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        return self._feed.next_offset(self.queue)

    def wake(self) -> None:
        self._woken.set()
        self._room.set()

    def _look_again(self) -> None:
        self._woken.set()

    def feed(self) -> None:
        self._room.set()

    def notice(self, record: GroupRecord) -> None:
        if record is not self._taken_by:
            self._noticed.set()
        if record != self._record:
            if self._left.queue is None and self._former_alone_reset(record):
                self.drain()  # whoever takes it next waits for them again
            before, self._record = self._keep, record
            self._keep = filter_of_group(self._around.group, record.settings, self.topic)
            if self._keep != before:
                self.schedule.blocked.filtered_anew()
            self.schedule.settings = record.settings
            self.wake()

    def part(self) -> None:
        """Log the dead letters lost by a deletion."""
        self._dead_letters.part(self.keeper.cell)

    def drain(self) -> None:
        self._draining = True
        self._noticed.set()
        self.wake()

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the queue is released or lost. Raises permanent errors."""
        self._feed.attach(self.queue)
        self._around.worker.quiet_listeners.append(self.wake)
        ends = [asyncio.ensure_future(event.wait()) for event in (self.keeper.ended, self._around.member.ended)]
        waiting: list[asyncio.Future[Any]] = [*ends]
        try:
            if not self._fits() and not await self._made_fit(waiting):
                return
            self.keeper.seen = self._seen
            letters, spills = self._dead_letters.run(self.keeper, self._feed, self._since), self._spilling.run(self.keeper)
            reasons = self._failures.run(lambda: self.keeper.cell, died=self.keeper.taken_from)
            beside = [self._fetch(), letters, spills, reasons, *([self._follow_former()] if self._former else [])]
            tasks = [asyncio.ensure_future(work) for work in (*beside, self._go_on())]
            waiting += tasks
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    await self._end_of(task)
        except TopicDeleted:
            # Letters in memory may be on their way.
            await self._dead_letters.finish(_PARTING_S)
            self.part()
            raise
        finally:
            self._around.worker.quiet_listeners.remove(self.wake)
            if self._alarm is not None:
                self._alarm.cancel()
            self._abandon()
            self.keeper.lose()
            background: list[asyncio.Future[Any]] = [*waiting, *([self._rereading.task] if self._rereading.task else [])]
            for one in background:
                one.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._dead_letters.close()
            await self._feed.detach(self.queue)
            self.ended.set()

    # --- What was put back from backups

    def _fits(self) -> bool:
        cell, position = self.keeper.cell, self._record.positions.get(self.topic)
        if position is None or self.queue >= len(position.generations):
            return True  # the topic or the group was made again, which `_obey` finds
        return (
            not is_ahead(cell, position, self.queue)
            and not of_another_record(cell, position, self.queue, self._record.secret)
            and agrees(self._feed.topic, self.queue, cell)
        )

    async def _made_fit(self, ends: list[asyncio.Future[Any]]) -> bool:
        """Whether log and record fit the cell, or the group was reset since; if not, the queue is over. Raises `InconsistentRestore`."""
        looking = asyncio.ensure_future(self._look_back())
        try:
            await asyncio.wait([*ends, looking], return_when=asyncio.FIRST_COMPLETED)
            return looking.done() and looking.result()
        except OwnershipLost:
            return False
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_back(self) -> bool:
        pause = Backoff(_TROUBLE_S)
        while not self._draining:
            cell, record = self.keeper.cell, self._record
            position = record.positions.get(self.topic)
            if position is None or self.queue >= len(position.generations):
                return True
            if is_ahead(cell, position, self.queue):
                if not self._noticed.is_set():
                    await self._noticed.wait()
                    continue
                raise self._inconsistent("the group's record is older than the cell")
            if why := of_another_record(cell, position, self.queue, record.secret):
                raise self._inconsistent(why)
            try:
                why = await of_another_log(self._feed.topic, self.queue, cell)
            except (RetryError, DataDamaged) as error:
                log.warning("group %s, %s queue %d: the log cannot be read: %s", *self._where, error)
                await asyncio.sleep(pause.next_s())
                continue
            if why is None:
                return True
            if cell.generation == position.generations[self.queue]:
                raise self._inconsistent(why)
            # The group was reset: messages that were given up in the other log have other messages at their offsets here.
            log.warning("group %s, %s queue %d was reset, as %s", *self._where, why)
            await self.keeper.change(lambda cell: replace(cell, dead_letters=cell.dead_letters.without_own()))
            return True
        await self.keeper.release()
        return False

    def _inconsistent(self, why: str) -> InconsistentRestore:
        return inconsistent(why, group=self._around.group, topic=self.topic, queue=self.queue)

    def _seen(self) -> LogWitness:
        state, secret = self._feed.topic.tail.state, self._record.secret
        if self._witness is None or self._witness[0] is not state or self._witness[1] != secret:
            self._witness = state, secret, seen(state, secret)
        return self._witness[2]

    async def _end_of(self, task: asyncio.Future[Any]) -> None:
        """Raise permanent errors. After a full cell the queue is taken anew."""
        try:
            task.result()
        except OwnershipLost:
            pass
        except CellFull as error:
            log.error("group %s, %s queue %d is taken anew: %s", *self._where, error)  # noqa: TRY400 - it says all
            await asyncio.sleep(_FULL_S)  # meanwhile dead letters are written, and waiting messages leave the cell

    # --- What is left in the queues that its message groups had before

    def _unknown_left(self) -> FormerWork:
        return FormerWork(self._former[0][0]) if self._former else NOTHING

    def _former_alone_reset(self, record: GroupRecord) -> bool:
        """Whether former queues were reset, and not this one."""
        own, queues = (self.topic, self.queue), [queue for queue, _ in self._former]
        before, now = (one.generations_of((self.topic, queue) for queue in (self.queue, *queues)) for one in (self._record, record))
        return before[own] == now[own] and before != now

    async def _follow_former(self) -> None:
        """Let messages wait for what is left in former queues. Nothing is read while none waits."""
        pause = Backoff(_TROUBLE_S)
        while True:
            self._left_anew.clear()
            self._left_wanted.clear()
            if self._left.queue is None and not self.schedule.blocked.waits_elsewhere:
                await wait_for(None, self._left_anew, self._left_wanted)
                pause = Backoff(_TROUBLE_S)
                continue
            schedule, record = self.schedule, self._record
            try:
                left = await read_former_work(self._around.cells, self._around.group, record, self.topic, self._former)
            except RetryError as error:
                log.warning("group %s, %s queue %d: the former queues are not known: %s", *self._where, error)
            else:
                if schedule is self.schedule and record is self._record and left != self._left:
                    self._left = left
                    schedule.wait_for(left)
                    self.wake()
            await wait_for(pause.next_s(), self._left_anew)

    async def _rest(self) -> None:
        if self._former and self.schedule.blocked.waits_elsewhere:
            self._left_wanted.set()
        # Ask for the messages that the step wanted and that are not in memory.
        if not self.schedule.closed:
            self._rereading.look(self.schedule, lambda: self._keep, self._clock.wall_ms())
        self._spilling.wake(self.keeper.cell)
        self._notice_letters()
        if self._woken.is_set():
            return
        starts_nothing = self._draining or self._around.worker.quiet or self.schedule.closed
        dues = [due for due in (self.schedule.next_due_ms(self.keeper.cell), self._next_expiry_ms()) if due is not None]
        soonest_s = 0.0 if self._around.member.may_start() else _LEASE_LOOK_S
        timeout_s = max(soonest_s, (min(dues) - self._clock.wall_ms()) / 1000) if dues and not starts_nothing else None
        if self._look_pause_s(self._clock.wall_ms()) is not None:
            look_s = max(0.0, self._look_s - self._clock.monotonic_s())
            timeout_s = look_s if timeout_s is None else min(timeout_s, look_s)
        if timeout_s is not None:
            self._wake_after(timeout_s)
        await self._woken.wait()

    def _wake_after(self, timeout_s: float) -> None:
        self._wake_at(asyncio.get_running_loop().time() + timeout_s)

    def _wake_at(self, at_s: float) -> None:
        """One alarm, by the loop's time, stands for many rests: it may go off too early, when something else was due, and never too late."""
        if self._alarm is not None:
            if self._alarm.when() <= at_s:
                return
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(at_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._woken.set()

    def _notice_letters(self) -> None:
        if self.keeper.cell.dead_letters.next_sequence != self._letters_seen:
            self._letters_seen = self.keeper.cell.dead_letters.next_sequence
            self._dead_letters.wake()

    # --- Messages that are handed out by receipt handle

    async def _expire(self, now_ms: int) -> None:
        if not self._lapses(now_ms):
            return
        found: list[Expiry] = []

        def change(cell: QueueCell) -> QueueCell:
            found[:] = [self._dead_letters.foresee(expired(cell, now_ms, self._record.settings))]
            return found[0].cell

        cell = await self.keeper.change(change)
        self._counters.cell_writes.add()
        self.schedule.adopt(cell)
        self._note(found[0].lapses)

    def _lapses(self, now_ms: int) -> bool:
        """Whether a message comes back now; those without room are looked at now and then."""
        due_ms = self._next_expiry_ms()
        if due_ms is None or due_ms > now_ms:
            return False
        expiry = expired(self.keeper.cell, now_ms, self._record.settings)
        self._expiry_ms = now_ms + _CROWDED_MS if expiry.left else 0
        if not expiry.lapses and not expiry.left:
            # The schedule does not know yet of an acknowledgement that a write or a look of this process met.
            self.schedule.adopt(self.keeper.cell)
        return bool(expiry.lapses)

    def _next_expiry_ms(self) -> int | None:
        due_ms = self.schedule.next_expiry_ms()
        return None if due_ms is None else max(due_ms, self._expiry_ms)

    def _log_parked(self, offset: int, head: MessageView | None = None) -> None:
        group, message = (
            ("a message group", "") if head is None else (f"message group {head.message_group!r}", f" (message {head.message_id})")
        )
        log.error("group %s, %s queue %d: %s is parked at offset %d%s: release or skip it", *self._where, group, offset, message)

    async def _release(self) -> None:
        """Release the queue, with nothing in flight."""
        await self._dead_letters.finish(DEAD_LETTERS_S)
        await self._failures.finish(self.keeper.cell, FAILURES_S)
        await self.keeper.release()
        self._counters.hand_overs.add()

    def _note(self, lapses: Sequence[ExpiredDelivery], *, error: str = LAPSED, text: str = NOT_ACKNOWLEDGED) -> None:
        self._failures.note_lapses(lapses, self.keeper.cell.generation, error=error, text=text)
        self._counters.count_failures([error] * len(lapses))
        for lapse in lapses:
            if lapse.given_up:
                self._dead_letters.wake()
            elif lapse.parked:
                self._log_parked(lapse.offset)
            else:
                log.warning(
                    "group %s, %s queue %d: offset %d was not acknowledged at attempt %d, and may be received again now",
                    *self._where,
                    lapse.offset,
                    lapse.attempts,
                )

    async def _look(self, now_ms: int) -> None:
        """Notice others' acknowledgements, for which a message group may wait."""
        pause_s, now_s = self._look_pause_s(now_ms), self._clock.monotonic_s()
        if pause_s is None or now_s < self._look_s:
            return
        self._look_s = now_s + pause_s
        try:
            cell = await self.keeper.look()
        except RetryError as error:
            log.warning("group %s, %s queue %d: %s", *self._where, error)
            return
        if cell is not self._adopted:  # a write of our own may have met the change before
            self._adopted = cell
            self.schedule.adopt(cell)

    def _look_pause_s(self, now_ms: int) -> float | None:
        """The time between looks; None: nothing waits."""
        orderly = self._record.settings.delivery_order is DeliveryOrder.ORDERLY
        if now_ms >= self._foreign_ms:
            return None
        return FOREIGN_LOOK_S if orderly else LETTERS_LOOK_S

    # --- Orders of operators

    async def _obey(self) -> None:
        record, before = self._record, self.keeper.cell
        if self.topic not in record.positions:
            raise ReopenError("the consumer group was deleted", operation="consume", object=self._around.group)
        if (after := caught_up(before, record, self.topic, self.queue)) is before:
            self._obeyed = None if waits_for_room(before, record, self.topic, self.queue) else record
            return
        await self._dead_letters.skip(before, after)
        cell = await self.keeper.change(lambda cell: caught_up(cell, record, self.topic, self.queue))
        self._obeyed = None if waits_for_room(cell, record, self.topic, self.queue) else record
        if cell.generation != before.generation:
            self._abandon()
            self.ages, self.arrivals = MessageAges(), MessageAges()
            self._left = self._unknown_left()
            self.schedule = self._begin_schedule(cell)
            self._left_anew.set()
            self._anew.set()
            log.info("group %s, %s queue %d: reset to offset %d", self._around.group, self.topic, self.queue, cell.settled.floor)
        else:
            self.schedule.adopt(cell)
        self._dead_letters.wake()

    # --- Rows

    async def _fetch(self) -> None:
        pause = Backoff(_TROUBLE_S)
        waited_s, wait_s = 0.0, _ROOM_GROWS_S
        while True:
            self._room.clear()
            self._anew.clear()
            schedule, start = self.schedule, self.schedule.next_load
            rows_max, bytes_max = self._around.room(self)
            cell_rows = schedule.room(self.keeper.cell)
            self.cramped = cell_rows < rows_max
            rows_max = min(rows_max, cell_rows, _FETCH_ROWS_MAX)
            nothing = rows_max <= 0 or self._draining or schedule.closed
            if nothing or (rows_max < schedule.held // _SMALL and waited_s < _ROOM_WAITS_S):
                self.starving = not schedule.closed
                await (self._room.wait() if nothing else asyncio.sleep(wait_s))
                self.starving = False
                waited_s, wait_s = (0.0, _ROOM_GROWS_S) if nothing else (waited_s + wait_s, min(_ROOM_WAIT_MAX_S, 2 * wait_s))
                continue
            waited_s, wait_s = 0.0, _ROOM_GROWS_S
            try:
                rows = await self._feed.fetch(self.queue, start, rows_max=rows_max, bytes_max=max(1, bytes_max))
                if rows is None:
                    await self._arrived(start)
                    continue
            except (RetryError, DataDamaged) as error:
                log.warning("group %s, %s queue %d: cannot read from offset %d: %s", *self._where, start, error)
                await asyncio.sleep(pause.next_s())
                continue
            except OffsetOutOfRange as error:
                await self._skip_expired(schedule, start, error)
                continue
            pause = Backoff(_TROUBLE_S)
            if schedule is self.schedule and schedule.next_load == start:
                self._load(schedule, rows, start)
                self._woken.set()

    async def _arrived(self, start: int) -> None:
        arrived, anew = asyncio.ensure_future(self._feed.arrived(self.queue, start)), asyncio.ensure_future(self._anew.wait())
        try:
            await asyncio.wait((arrived, anew), return_when=asyncio.FIRST_COMPLETED)
            if arrived.done():
                arrived.result()
        finally:
            arrived.cancel()
            anew.cancel()
            await asyncio.gather(arrived, anew, return_exceptions=True)

    def _load(self, schedule: ScheduleT, rows: pa.RecordBatch, start: int) -> None:
        limit = start + rows.num_rows
        first_unsettled, stored_ms = queue_lag(self.keeper.cell).first_unsettled, rows.column("store_timestamp")[0].value // 1000
        for notes, time_ms in ((self.ages, stored_ms), (self.arrivals, int(1000 * self._clock.monotonic_s()))):
            notes.forget(first_unsettled)
            notes.note(start, time_ms)
        self._counters.delivery_ms.observe(max(0, self._clock.wall_ms() - stored_ms))
        kept = self._keep.apply(rows, self._feed.schema)
        self.bytes_per_message = max(1.0, rows.nbytes / rows.num_rows)
        schedule.load(LazyMessages.fetched(self.topic, kept, epoch=self.keeper.epoch), missing_of(kept, start, limit), limit)

    async def _skip_expired(self, schedule: ScheduleT, start: int, error: OffsetOutOfRange) -> None:
        earliest = await self._feed.kept_from(self.queue, start)
        if earliest <= start:
            raise error
        if self._around.on_expired == "stop":
            raise gone("{}, {} queue {}".format(*self._where), start, earliest) from error
        log.error(
            "group %s, %s queue %d: offsets %d to %d are gone by retention before the group had them, and are passed over",
            *self._where,
            start,
            earliest - 1,
        )
        if schedule is self.schedule and schedule.next_load == start:
            schedule.load([], OffsetSet.of([(start, earliest)]), earliest)
            self.wake()

    def _since(self) -> int:
        position = self._record.positions.get(self.topic)
        return 0 if position is None else position.since

    @property
    def _where(self) -> tuple[str, str, int]:
        return self._around.group, self.topic, self.queue
