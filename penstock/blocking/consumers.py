"""Consumers of a group. The work is done on the lake's event-loop thread.

Made by infra/scripts/blocking_face.py (`make face`). Do not edit: change the asynchronous classes, and make it anew. They are in

    penstock.consumers.broadcast
    penstock.consumers.pull
    penstock.consumers.push
    penstock.consumers.simple
"""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from penstock.consumers.broadcast import BroadcastConsumer as AsyncBroadcastConsumer
from penstock.consumers.named_receives import OutstandingDelivery
from penstock.consumers.pull import MESSAGES_MAX
from penstock.consumers.pull import PullConsumer as AsyncPullConsumer
from penstock.consumers.push import PushConsumer as AsyncPushConsumer
from penstock.consumers.simple import AWAIT_DEFAULT, INVISIBLE_DEFAULT, RECEIVE_MESSAGES_MAX, ReceiptT
from penstock.consumers.simple import SimpleConsumer as AsyncSimpleConsumer
from penstock.consumers.statistics import ConsumerStatistics
from penstock.log.limits import Duration
from penstock.log.message.message import MessageView
from penstock.log.read.reader import Position

from .face import ConsumerFace, SimpleConsumerFace


class PushConsumer(ConsumerFace[AsyncPushConsumer]):
    """A member of a consumer group that runs a listener for every message. ``lake.push_consumer`` makes it.

    ORDERLY: the messages of a message group run one after the other, in the order they were stored, each when the earlier one is
    settled. Different groups run side by side. CONCURRENT: all messages run side by side.

    A message is acknowledged once, by its queue's owner; after a crash it may be handed out again. Its `delivery_attempt` and
    `epoch` fence late effects of a paused process. Use the consumer in a ``with`` block, or close it: that lets running
    handlers end, settles their results, and hands the queues over.
    """

    def drain(self) -> None:
        """Begin to close without waiting for the end: messages that were not started go back."""
        self._portal.run(self._core.drain)

    def statistics(self) -> ConsumerStatistics:
        """The present state of the consumer's queues."""
        return self._core.statistics()


class PullConsumer(ConsumerFace[AsyncPullConsumer]):
    """A member of a consumer group that asks for messages itself. ``lake.pull_consumer`` makes it.

    Within a queue messages come in order, from the group's committed offset on. `commit` settles what `poll` has handed out. Messages that were not
    committed come again after a crash, or to the next owner. Nothing is retried or dead-lettered: the caller goes back with `seek`. Queues are shared
    evenly among the members (subscribe), or given (assign). Use it in a ``with`` block, or close it, which commits nothing.
    """

    @property
    def assignment(self) -> list[tuple[str, int]]:
        """The (topic, queue) that it reads now."""
        return self._core.assignment

    def poll(self, max_messages: int = MESSAGES_MAX, *, timeout: Duration = timedelta(seconds=1)) -> list[MessageView]:
        """The next messages, of one or several queues; an empty list after ``timeout`` (a `timedelta` or seconds).

        Raises `InvalidArgument` for a bad number, `ClosedError`, `OffsetOutOfRange` when retention removed the next messages (seek
        on), errors that made reading impossible, and the error that ended the consumer by itself.
        """
        return self._portal.run(lambda: self._core.poll(max_messages, timeout=timeout))

    def poll_arrow(
        self, max_messages: int = MESSAGES_MAX, *, timeout: Duration = timedelta(seconds=1)
    ) -> list[tuple[str, pa.RecordBatch]]:
        """`poll` as (topic, batch with `MESSAGE_SCHEMA`), each of one queue."""
        return self._portal.run(lambda: self._core.poll_arrow(max_messages, timeout=timeout))

    def position(self, topic: str, queue: int) -> int:
        """The offset that `poll` hands out next. Raises `InvalidArgument` for a queue of others."""
        return self._core.position(topic, queue)

    def committed(self, topic: str, queue: int) -> int:
        """The offset up to which the group has settled a queue. Raises as `position`."""
        return self._core.committed(topic, queue)

    def seek(self, topic: str, queue: int, to: Position) -> int:
        """Go on at an offset, a store time, ``"earliest"`` or ``"latest"``. Returns the offset. Commits nothing. Raises `InvalidArgument` for a queue
        of others, `OffsetOutOfRange` for an offset that is not kept.
        """
        return self._portal.run(lambda: self._core.seek(topic, queue, to))

    def commit(self) -> None:
        """Settle all messages handed out; they are durable when this returns. After a `seek` back, the group goes back as by a
        reset.

        Messages handed out before an operator's reset are not settled. Raises `OwnershipLost` when some queues have another owner,
        and `GroupDeleted` or `TopicDeleted` for a seek back.
        """
        self._portal.run(self._core.commit)


class SimpleConsumer(SimpleConsumerFace[AsyncSimpleConsumer]):
    """A member of a consumer group that receives messages on request. ``lake.simple_consumer`` makes it.

    A received message is invisible to all others for a while. If it is not acknowledged in that time, that was a failed attempt, and the next
    ``receive`` gets it, until the group's attempts are used up and its dead-letter policy applies.

    ORDERLY: while a message of a message group is out, no later one of that group is handed out, except by the same ``receive``. Such messages are to
    be acknowledged in order, and become visible together. CONCURRENT: nothing waits.

    Use the consumer in a ``with`` block, or close it: that hands its queues over, and ends waiting receives with `ClosedError`. Received
    messages can still be acknowledged by their handles through another consumer of the group.
    """

    def receive(
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
        return self._portal.run(
            lambda: self._core.receive(max_messages, invisible_duration, await_duration, attempt_id=attempt_id, holder=holder)
        )

    def deliveries(self, *holders: str) -> list[OutstandingDelivery]:
        """All messages of the consumer's topics that are out to these holders, over all queues and whichever process owns them.

        For gateways that go on for a holder. Reads every queue's cell once. Raises `InvalidArgument`, `ClosedError`, and a retry error when the table
        or the store does not answer.
        """
        return self._portal.run(lambda: self._core.deliveries(*holders))

    def ack(self, *receipts: MessageView | str) -> None:
        """Settle messages, given as such or by their receipt handles. Returns once that is durable.

        Any process may acknowledge. The first of several refusals is raised, and the other messages are settled.

        Raises `ReceiptRefused`: `ReceiptExpired`, `AlreadySettled`, `ReceiptOutdated` after a reset of the group's offsets, `ReceiptAhead` of an
        earlier message of its message group from the same receive, or `ForeignReceipt` of another group. Raises `InvalidArgument` for a bad receipt
        handle. Raises a retry error or `UnknownOutcome` when the table does not answer: the messages may be settled. Another try then raises
        `AlreadySettled` for a message that is done or was given up.
        """
        self._portal.run(lambda: self._core.ack(*receipts))

    def ack_each(self, *receipts: MessageView | str) -> list[BaseException | None]:
        """Do what `ack` does, for gateways, and return the error of each receipt: None where the message is settled. A receipt of another group is an
        error of its own, too. Raises `ClosedError`.
        """
        return self._portal.run(lambda: self._core.ack_each(*receipts))

    def change_invisible_duration(
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
        return self._portal.run(lambda: self._core.change_invisible_duration(receipt, duration, holder=holder, lets_go=lets_go))

    def dead_letter(self, receipt: MessageView | str) -> None:
        """Give up a message, given as such or by its receipt handle, as if it had run out of attempts. Returns once that is durable. Any process may
        do so.

        The queue's owner writes the dead letter, at once or within some ten seconds. With the dead-letter policy ``park`` an ORDERLY group's message
        group is parked instead. Other messages of its message group from the same receive stay out, unless the group is parked.

        Raises as `ack` does; of messages of a message group that were received together the first one is given up first. Raises `DeadLettersWait`
        when 1,000 dead letters of the queue wait to be written: the message is out as before.
        """
        self._portal.run(lambda: self._core.dead_letter(receipt))

    def statistics(self) -> ConsumerStatistics:
        """Counts of the consumer's queues; messages that are out count as in flight."""
        return self._core.statistics()


class BroadcastConsumer(ConsumerFace[AsyncBroadcastConsumer]):
    """A named member of a broadcasting group, whose listener gets every message. ``lake.broadcast_consumer`` makes it.

    Use it in a ``with`` block, or close it: that lets running handlers end, and saves its progress.

    Messages of one queue come one after the other, different queues side by side. A queue that the topic got later begins once the messages before
    it are done that its message groups had in their former queue. A listener that fails, raises or runs longer than
    ``consume_timeout`` is logged, and the message counts as done. Progress is saved every second and on close: after a crash the messages of the last
    second come again, as do messages whose handlers outlast the close. A later consumer of the name ends this one with `FencedError`.
    """

    @property
    def member(self) -> str:
        """The name under which its progress is kept."""
        return self._core.member
