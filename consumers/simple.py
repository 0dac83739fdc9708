"""SimpleConsumer: messages on request, acknowledged by receipt handle."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeAlias, TypeVar

from ..coordinator.cells.keys import queue_key
from ..coordinator.coordination import Coordination
from ..coordinator.queues.cell import Receive
from ..coordinator.queues.invisibility import Acknowledgement, acknowledged, changed_invisible_duration, given_up
from ..coordinator.queues.keeper import Change, OwnershipLost
from ..coordinator.queues.receipt_handle import AlreadySettled, ForeignReceipt, ReceiptHandle, ReceiptRefused, is_genuine
from ..coordinator.queues.remote_acks import RemoteAcks, UncertainWrite
from ..coordinator.rebalance.balance import Queue
from ..log.errors import InvalidArgument, LimitExceeded
from ..log.lake import LogLake
from ..log.limits import MIB, Duration, checked_duration, is_positive
from ..log.message.message import MessageView
from ..log.metrics import MemoryMetrics, Metrics, check_metrics
from .consumer import GroupMember
from .limits import QueueLimits, check_counts
from .membership import Membership, Subscription
from .named_receives import NamedReceives, OutstandingDelivery
from .queues.assigned_queues import AssignedQueues
from .queues.receive_processor import ReceiveContext, ReceiveProcessor
from .queues.settlements import SettlingLost
from .statistics import ConsumerStatistics

RECEIVE_MESSAGES_MAX = 32
"""The default limit of one receive; RocketMQ's value."""
INVISIBLE_MIN = timedelta(seconds=10)
"""The shortest invisible duration of a receive. A later change may end it at once."""
INVISIBLE_MAX = timedelta(hours=12)
INVISIBLE_DEFAULT = timedelta(seconds=30)
AWAIT_DEFAULT = timedelta(seconds=20)

T = TypeVar("T")
ReceiptT = TypeVar("ReceiptT", MessageView, str)
_Change: TypeAlias = tuple[str, int, Sequence[ReceiptHandle], Change]
"""A change of a queue's cell for these deliveries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleOptions:
    """A SimpleConsumer's settings. Raises `InvalidArgument`."""

    receive_max: int = RECEIVE_MESSAGES_MAX
    """The limit of one receive."""
    cache_messages: int = 1_024
    """Messages fetched and not handed out."""
    cache_bytes: int = 64 * MIB
    metrics: Metrics = field(default_factory=MemoryMetrics)

    def __post_init__(self) -> None:
        check_counts(self, "receive_max", "cache_messages", "cache_bytes", operation="simple consumer")
        check_metrics(self.metrics, "simple consumer")


class SimpleConsumer(GroupMember):
    """A member of a consumer group that receives messages on request. ``lake.simple_consumer`` makes it.

    A received message is invisible to all others for a while. If it is not acknowledged in that time, that was a failed attempt, and the next
    ``receive`` gets it, until the group's attempts are used up and its dead-letter policy applies.

    ORDERLY: while a message of a message group is out, no later one of that group is handed out, except by the same ``receive``. Such messages are to
    be acknowledged in order, and become visible together. CONCURRENT: nothing waits.

    Use the consumer in an ``async with`` block, or close it: that hands its queues over, and ends waiting receives with `ClosedError`. Received
    messages can still be acknowledged by their handles through another consumer of the group.
    """

    def __init__(
        self,
        lake: LogLake,
        coordination: Coordination,
        *,
        group: str,
        subscriptions: Mapping[str, Subscription],
        stated: Mapping[str, object],
        options: SimpleOptions | None = None,
    ) -> None:
        super().__init__(Membership(lake, coordination, group=group, subscriptions=subscriptions, stated=stated), group=group)
        self._coordination = coordination
        self._runtime, self._store = lake.runtime, lake.store
        self._clock = lake.runtime.clock
        self._options = options or SimpleOptions()
        self._worker = coordination.worker
        self._in_flight = coordination.in_flight
        self._receipts = RemoteAcks(coordination.cells, lake.runtime)
        self._owner = AssignedQueues(
            ReceiveProcessor,
            self._surroundings,
            lambda processor: processor.out,
            lake=lake,
            group=group,
            membership=self._membership,
            metrics=self._options.metrics,
            cache_messages=self._options.cache_messages,
            cache_bytes=self._options.cache_bytes,
        )
        self._receives = NamedReceives(group, self._membership, coordination.cells, self._clock, self._owner.queues)
        self._arrived = asyncio.Event()
        self._waiting = self._settling = 0
        """The receives, and the acknowledging calls, under way."""
        self._turn: Queue = ("", 0)
        self._sorted: dict[Queue, None] = {}
        """The queues in order, as they were when `_in_turn` was last asked."""

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        await self._owner.run()

    async def _give_up(self) -> None:
        self._notify()
        await super()._give_up()

    async def _end(self) -> None:
        await self._owner.end()
        self._notify()

    def _surroundings(self) -> ReceiveContext:
        return ReceiveContext(
            group=self.group,
            runtime=self._runtime,
            store=self._store,
            cells=self._coordination.cells,
            worker=self._worker,
            member=self._membership.member,
            room=self._owner.room,
            freed=self._owner.freed,
            in_flight=self._in_flight,
            limits=QueueLimits(retained=max(QueueLimits().retained, self._options.cache_messages), waiting=None),
            arrived=self._notify,
            is_awaited=lambda: self._waiting > 0,
            is_alone=lambda: self._waiting + self._settling == 1,
        )

    # --- Receiving --------------------------------------------------------------------------------------------------------------

    async def receive(
        self,
        max_messages: int = RECEIVE_MESSAGES_MAX,
        invisible_duration: Duration = INVISIBLE_DEFAULT,
        await_duration: Duration = AWAIT_DEFAULT,
        *,
        attempt_id: str | None = None,
        holder: str | None = None,
    ) -> list[MessageView]:
        """Receive up to ``max_messages`` messages, as soon as there are any. Returns an empty list when there are none for ``await_duration``.

        They are invisible to all others for ``invisible_duration`` (10 s to 12 h) from the hand-out, which is durable before this returns. Both
        durations are a `timedelta` or a number of seconds. ``message.delivery_attempt`` is the number of the delivery.

        Several receives may wait at once. A cancelled receive gives back its messages, unless it has an attempt id: they stay out to that.

        ``attempt_id`` makes a receive repeatable: draw one for each receive, and state it again if its answer was lost. While messages are out to it,
        the receive gives just these again, with the same handles, delivery attempts and times, however many: those that this consumer gave, those of
        queues that it owns, and those that `deliveries` found. ``holder`` names the recipient, for `deliveries`.

        Raises `InvalidArgument` and `LimitExceeded` for arguments that are out of range, `ClosedError`, and the error that ended the consumer. With
        an attempt id raises a retry error when the table or the store does not answer.
        """
        self._check_count(max_messages)
        invisible = checked_duration(
            "invisible_duration", invisible_duration, least=INVISIBLE_MIN, most=INVISIBLE_MAX, operation="receive"
        )
        awaited = checked_duration("await_duration", await_duration, most=INVISIBLE_MAX, operation="receive")
        receive = self._receives.named(attempt_id, holder)
        invisible_ms = _ms(invisible)
        until_s = self._clock.monotonic_s() + awaited.total_seconds()
        self._waiting += 1
        try:
            while True:
                self._check_open("receive")
                arrived = self._arrived
                if receive is None:
                    found = await self._take(max_messages, invisible_ms, None)
                else:
                    found = await self._found(max_messages, invisible_ms, receive)
                if found:
                    return found
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, until_s - self._clock.monotonic_s())):
                        await arrived.wait()
                        continue
                self._check_open("receive")
                async with self._receives.one_by_one(receive):
                    return await self._again(receive)  # another receive of its attempt id may have been given something
        finally:
            self._waiting -= 1

    async def _found(self, most: int, invisible_ms: int, receive: Receive) -> list[MessageView]:
        async with self._receives.one_by_one(receive):
            return await self._again(receive) or await self._take(most, invisible_ms, receive)

    async def _again(self, receive: Receive | None) -> list[MessageView]:
        """Messages that are out to this receive, and in flight here."""
        found, due_ms = await self._receives.again(receive)
        self._in_flight.begin(
            [[message.receipt_handle] for message in found if not self._in_flight.holds(message.receipt_handle)], due_ms
        )
        return found

    async def deliveries(self, *holders: str) -> list[OutstandingDelivery]:
        """All messages of the consumer's topics that are out to these holders, over all queues and whichever process owns them.

        For gateways that go on for a holder. Reads every queue's cell once. Raises `InvalidArgument`, `ClosedError`, and a retry error when the table
        or the store does not answer.
        """
        self._check_open("deliveries")
        return await self._receives.deliveries(holders)

    async def _take(self, most: int, invisible_ms: int, receive: Receive | None) -> list[MessageView]:
        asked: list[tuple[Queue, ReceiveProcessor, asyncio.Future[list[MessageView]]]] = []
        for queue in self._in_turn():
            processor = self._owner.queues[queue]
            if count := min(most, processor.available()):
                if receive is not None:
                    self._receives.note(receive, queue, self._clock.wall_ms() + invisible_ms)
                asked.append((queue, processor, processor.ask(count, invisible_ms, receive)))
                self._turn = queue
                most -= count
            if not most:
                break
        if not asked:
            return []
        try:
            for _, _, given in asked:
                await given
        except asyncio.CancelledError:
            for _, processor, given in asked:
                if not given.cancelled() and not given.cancel():
                    processor.give_back(given.result(), receive)
            raise
        if receive is not None:
            for queue, processor, given in asked:
                if not given.result() and not processor.keeper.ended.is_set():
                    self._receives.forget(receive, queue)  # if the queue was lost, its cell may say that it gave something
        return asked[0][2].result() if len(asked) == 1 else [message for _, _, given in asked for message in given.result()]

    def _in_turn(self) -> list[Queue]:
        queues = self._owner.queues
        if queues.keys() != self._sorted.keys():
            self._sorted = dict.fromkeys(sorted(queues))
        ordered = [*self._sorted]
        behind = bisect_right(ordered, self._turn)
        return ordered[behind:] + ordered[:behind]

    def _notify(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()

    # --- Receipts ---------------------------------------------------------------------------------------------------------------

    async def ack(self, *receipts: MessageView | str) -> None:
        """Settle messages, given as such or by their receipt handles. Returns once that is durable.

        Any process may acknowledge. The first of several refusals is raised, and the other messages are settled.

        Raises `ReceiptRefused`: `ReceiptExpired`, `AlreadySettled`, `ReceiptOutdated` after a reset of the group's offsets, `ReceiptAhead` of an
        earlier message of its message group from the same receive, or `ForeignReceipt` of another group. Raises `InvalidArgument` for a bad receipt
        handle. Raises a retry error or `UnknownOutcome` when the table does not answer: the messages may be settled. Another try then raises
        `AlreadySettled` for a message that is done or was given up.
        """
        _raise_first(await self._acked(receipts, self.handles_of(receipts, "ack")))

    async def ack_each(self, *receipts: MessageView | str) -> list[BaseException | None]:
        """Do what `ack` does, for gateways, and return the error of each receipt: None where the message is settled. A receipt of another group is an
        error of its own, too. Raises `ClosedError`.
        """
        self._check_open("ack")
        if len(receipts) == 1 and (handle := self.known_handle(_text(receipts[0]))) is not None:  # as of most clients' calls
            return [await self._acked_alone(receipts[0], handle)]
        handles: list[ReceiptHandle] = []
        named: list[MessageView | str] = []
        ends: dict[int, BaseException | None] = {}
        for place, receipt in enumerate(receipts):
            try:
                handles += self.handles_of((receipt,), "ack")
                named.append(receipt)
            except (InvalidArgument, ReceiptRefused) as error:
                ends[place] = error
        acked = iter(await self._acked(named, handles))
        return [ends[place] if place in ends else next(acked) for place in range(len(receipts))]

    async def _acked(self, receipts: Sequence[MessageView | str], handles: Sequence[ReceiptHandle]) -> list[BaseException | None]:
        if len(handles) == 1:
            return [await self._acked_alone(receipts[0], handles[0])]
        return await self._acked_together(receipts, handles)

    async def _acked_together(
        self, receipts: Sequence[MessageView | str], handles: Sequence[ReceiptHandle]
    ) -> list[BaseException | None]:
        now_ms = self._clock.wall_ms()
        places: dict[Queue, list[int]] = {}
        for place, handle in enumerate(handles):
            queue = handle.topic, handle.queue
            if (of := places.get(queue)) is None:
                places[queue] = [place]
            else:
                of.append(place)
        acks: dict[Queue, list[Acknowledgement]] = {}
        own: dict[Queue, asyncio.Future[Mapping[int, ReceiptRefused]]] = {}
        self._settling += 1
        try:
            for queue, of in places.items():
                known = self._membership.generation(*queue)
                acks[queue] = [Acknowledgement(handles[place], now_ms, known) for place in of]
                if (processor := self._owner.queues.get(queue)) is not None:
                    own[queue] = processor.acknowledge(acks[queue])
            answered = await _ended(list(own.values()))
        finally:
            self._settling -= 1
        answers = dict(zip(own, answered, strict=True))
        ends: list[BaseException | None] = [None] * len(handles)
        beside: dict[int, asyncio.Future[None]] = {}
        for queue, of in places.items():
            match answers.get(queue):
                case None | OwnershipLost() as lost:
                    tried = lost.tried if isinstance(lost, SettlingLost) else None
                    for place, ack in zip(of, acks[queue], strict=True):
                        beside[place] = self._acknowledge_beside(queue, ack, tried)
                case BaseException() as error:
                    for place in of:
                        ends[place] = error
                case refusals:
                    for at, refusal in refusals.items():
                        ends[of[at]] = refusal
        if beside:
            settled_beside = await _ended(list(beside.values()))
            for place, end in zip(beside, settled_beside, strict=True):
                ends[place] = end
        settled = zip(receipts, ends, strict=True)
        self._in_flight.end([_text(receipt) for receipt, end in settled if end is None or isinstance(end, AlreadySettled)])
        return ends

    async def _acked_alone(self, receipt: MessageView | str, handle: ReceiptHandle) -> BaseException | None:
        """`_acked` for one message, as most calls have: without what puts many in order."""
        queue = handle.topic, handle.queue
        ack = Acknowledgement(handle, self._clock.wall_ms(), self._membership.generation(*queue))
        end: BaseException | None = None
        tried: UncertainWrite | None = None
        processor = self._owner.queues.get(queue)
        if processor is not None:
            self._settling += 1
            try:
                end = (await processor.acknowledge((ack,))).get(0)
            except OwnershipLost as lost:
                processor, tried = None, lost.tried if isinstance(lost, SettlingLost) else None
            except Exception as error:  # noqa: BLE001 - an answer like others
                end = error
            finally:
                self._settling -= 1
        if processor is None:
            (end,) = await _ended([self._acknowledge_beside(queue, ack, tried)])
        if end is None or isinstance(end, AlreadySettled):
            self._in_flight.end((_text(receipt),))
        return end

    def _acknowledge_beside(self, queue: Queue, ack: Acknowledgement, tried: UncertainWrite | None) -> asyncio.Future[None]:
        change = partial(acknowledged, handle=ack.handle, now_ms=ack.now_ms, known=ack.known)
        return self._receipts.change(queue_key(self.group, *queue), change, tried=tried)

    def is_of(self, coordination: Coordination) -> bool:
        return self._coordination is coordination

    def handles_of(self, receipts: Sequence[MessageView | str], operation: str) -> list[ReceiptHandle]:
        """The receipt handles of messages, for `settle_by`. Raises as `ack` does for bad receipts."""
        if not receipts:
            return []
        self._check_open(operation)
        handles: list[ReceiptHandle] = []
        for receipt in receipts:
            text = receipt.receipt_handle if isinstance(receipt, MessageView) else receipt
            made = self.known_handle(text)
            handles.append(self._handle(receipt, operation) if made is None else made)
        return handles

    def known_handle(self, text: object) -> ReceiptHandle | None:
        """The receipt handle with this text, of this group, if it was made here and its message is in flight: then the text need not be read, which
        takes ten times as long.
        """
        made = self._in_flight.handle(text, self._membership.record.secret) if isinstance(text, str) else None
        return made if made is not None and made.group == self.group else None

    async def settle_by(self, topic: str, queue: int, handles: Sequence[ReceiptHandle], change: Change) -> None:
        """Carry out a change of a queue's cell that settles all or none of these messages.

        Raises what ``change`` raises, after which an earlier write may still settle them; the table's errors; and `OwnershipLost` or `UnknownOutcome`
        when the outcome is unknown.
        """
        _raise_first(await self._settle([(topic, queue, handles, change)]))
        secret = self._membership.record.secret
        self._in_flight.end(handle.encode(secret) for handle in handles)

    async def change_invisible_duration(
        self, receipt: ReceiptT, duration: Duration, *, holder: str | None = None, lets_go: bool = False
    ) -> ReceiptT:
        """Let a message, given as such or by its receipt handle, become visible ``duration`` (0 to 12 h) from now. Returns the receipt for later
        calls.

        An extension is no retry: the delivery goes on, and its handle stays good. Zero ends it at once as a failed attempt. A change for one of the
        messages of a message group that were received together is a change for all; for one that is not the first, only an extension is accepted.

        ``holder`` makes it a renewal: only while the message is out to that holder. ``lets_go``: its holder is done with the message. Until it is
        handed out again, no `deliveries`, attempt id or renewal concerns it. Of messages that become visible together only the first lets go.

        Raises as `ack` does, `ReceiptRefused` where the message is not out to the holder, and `InvalidArgument` or `LimitExceeded` for a duration out
        of range or an invalid holder.
        """
        invisible = checked_duration("duration", duration, most=INVISIBLE_MAX, operation="change_invisible_duration")
        (handle,) = self.handles_of((receipt,), "change_invisible_duration")
        now_ms = self._clock.wall_ms()
        due_ms = now_ms + _ms(invisible)
        change = partial(
            changed_invisible_duration,
            handle=handle,
            due_ms=due_ms,
            now_ms=now_ms,
            known=self._known(handle),
            holder=self._receives.holder(holder),
            lets_go=lets_go,
        )
        _raise_first(await self._settle([_one(handle, change)]))
        self._in_flight.change(_text(receipt), due_ms)
        return receipt

    async def dead_letter(self, receipt: MessageView | str) -> None:
        """Give up a message, given as such or by its receipt handle, as if it had run out of attempts. Returns once that is durable. Any process may
        do so.

        The queue's owner writes the dead letter, at once or within some ten seconds. With the dead-letter policy ``park`` an ORDERLY group's message
        group is parked instead. Other messages of its message group from the same receive stay out, unless the group is parked.

        Raises as `ack` does; of messages of a message group that were received together the first one is given up first. Raises `DeadLettersWait`
        when 1,000 dead letters of the queue wait to be written: the message is out as before.
        """
        (handle,) = self.handles_of((receipt,), "dead_letter")
        policy = self._membership.record.settings.dead_letter_policy
        change = partial(given_up, handle=handle, policy=policy, now_ms=self._clock.wall_ms(), known=self._known(handle))
        (end,) = await self._settle([_one(handle, change)])
        if end is None or isinstance(end, AlreadySettled):
            self._in_flight.end((_text(receipt),))
        _raise_first((end,))

    def _handle(self, receipt: MessageView | str, operation: str) -> ReceiptHandle:
        self._check_open(operation)
        if isinstance(receipt, (list, tuple)) and not isinstance(receipt, MessageView):
            raise InvalidArgument(
                "messages are named one by one, not in a list",
                operation=operation,
                expected="messages, or their receipt handles",
                observed=type(receipt).__name__,
                hint="ack(*messages)" if operation.startswith("ack") else "call it for each",
            )
        if isinstance(receipt, MessageView) and not receipt.receipt_handle:
            raise InvalidArgument(
                "the message has no receipt handle",
                operation=operation,
                expected="a message from receive()",
                observed="one from elsewhere",
            )
        text, secret = _text(receipt), self._membership.record.secret
        handle = ReceiptHandle.decode(text)
        if handle.group != self.group:
            raise ForeignReceipt(
                "the receipt handle is of another consumer group",
                operation=operation,
                object=handle.where,
                expected=self.group,
                observed=handle.group,
            )
        if not is_genuine(text, secret):
            raise ForeignReceipt(
                "the receipt handle was not made by this consumer group",
                operation=operation,
                object=handle.where,
                expected=f"one that a receive of group {self.group} gave",
                hint="a group that was deleted and made again takes no handles of before",
            )
        return handle

    def _known(self, handle: ReceiptHandle) -> int:
        return self._membership.generation(handle.topic, handle.queue)

    async def _settle(self, changes: Sequence[_Change]) -> list[BaseException | None]:
        """Carry out changes through this process's queues, or beside owners. Returns each one's error, or None."""
        queues = self._owner.queues
        asked = [
            processor.settle(handles, change) if (processor := queues.get((topic, queue))) is not None else None
            for topic, queue, handles, change in changes
        ]
        here = await _ended([one for one in asked if one is not None])
        if len(here) == len(asked) and not any(isinstance(end, OwnershipLost) for end in here):
            return here
        done = [
            self._receipts.change(queue_key(self.group, topic, queue), change, tried=_tried(one))
            if one is None or isinstance(one.exception(), OwnershipLost)
            else one
            for (topic, queue, _, change), one in zip(changes, asked, strict=True)
        ]
        return await _ended(done)

    # --- Checks -----------------------------------------------------------------------------------------------------------------

    def _check_count(self, max_messages: object) -> None:
        if not is_positive(max_messages):
            raise InvalidArgument("max_messages must be a positive whole number", operation="receive", observed=max_messages)
        if max_messages > self._options.receive_max:  # type: ignore[operator]  # it is a number
            raise LimitExceeded(
                "a receive gives fewer messages",
                operation="receive",
                expected=f"max_messages of at most {self._options.receive_max}",
                observed=max_messages,
                hint="open the consumer with a larger receive_max",
            )

    # --- What operators see -------------------------------------------------------------------------------------------------------

    def statistics(self) -> ConsumerStatistics:
        """Counts of the consumer's queues; messages that are out count as in flight."""
        return self._owner.statistics()


async def _ended(asked: Sequence[asyncio.Future[T]]) -> list[T | BaseException]:
    if len(asked) != 1:
        return await asyncio.gather(*asked, return_exceptions=True)
    try:  # as of most calls: `gather` takes one more future, and a turn of the event loop
        return [await asked[0]]
    except Exception as error:  # noqa: BLE001 - an answer like others
        return [error]


def _one(handle: ReceiptHandle, change: Change) -> _Change:
    return handle.topic, handle.queue, (handle,), change


def _tried(settling: asyncio.Future[None] | None) -> UncertainWrite | None:
    error = None if settling is None else settling.exception()
    return error.tried if isinstance(error, SettlingLost) else None


def _text(receipt: MessageView | str) -> str:
    return receipt.receipt_handle if isinstance(receipt, MessageView) else receipt


def _raise_first(ends: Sequence[BaseException | None]) -> None:
    for error in ends:
        if error is not None:
            raise error


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
