"""SimpleConsumer for synchronous callers; the work is done on the lake's event-loop thread."""

from __future__ import annotations

from datetime import timedelta

from penstock.consumers import ConsumerStatistics
from penstock.consumers import SimpleConsumer as AsyncSimpleConsumer
from penstock.consumers.simple import AWAIT_DEFAULT, INVISIBLE_DEFAULT, RECEIVE_MESSAGES_MAX, ReceiptT
from penstock.log import MessageView

from .consumer_ends import ConsumerEnd


class SimpleConsumer(ConsumerEnd[AsyncSimpleConsumer]):
    """A member of a consumer group that is given messages when it asks; see `penstock.Lake.simple_consumer`.

    Use it in a ``with`` block, or close it: that hands its queues over. What was received and not acknowledged stays invisible until its time
    is over, and can be acknowledged by its handle through another consumer of the group.
    """

    def statistics(self) -> ConsumerStatistics:
        """How the queues stand that it owns."""
        return self._core.statistics()

    def on_loop(self) -> AsyncSimpleConsumer:
        """The same consumer as the lake's event loop has it."""
        return self._core

    def receive(
        self,
        max_messages: int = RECEIVE_MESSAGES_MAX,
        invisible_duration: timedelta = INVISIBLE_DEFAULT,
        await_duration: timedelta = AWAIT_DEFAULT,
    ) -> list[MessageView]:
        """At most ``max_messages`` messages, as soon as there are any; an empty list when there are none for ``await_duration``.

        They are invisible to all others for ``invisible_duration`` (10 s to 12 h), counted from when they are handed out, which is durable
        before this returns. ``message.delivery_attempt`` counts how often a message was handed out. Several threads may receive at once.

        Raises `InvalidArgument` and `LimitExceeded` for arguments that are out of range, `ClosedError`, and what ended the consumer.
        """
        return self._portal.run(lambda: self._core.receive(max_messages, invisible_duration, await_duration))

    def ack(self, *receipts: MessageView | str) -> None:
        """Settle messages, named by themselves or by their receipt handles; returns once that is durable. They never come back.

        Any process may acknowledge, whoever received and whoever owns the queue by now. What is acknowledged at once is written together.
        Of several that are refused the first refusal is raised, and the others are settled.

        Raises `ReceiptRefused`: `ReceiptExpired`, `AlreadySettled`, `ReceiptOutdated` after a reset of the group's offsets, `ReceiptAhead`
        of an earlier message of its message group from the same receive, `ForeignReceipt` of another group; `InvalidArgument` for what is no
        receipt handle; and a retry error when the table does not answer: acknowledge again, then `AlreadySettled` means that it was done.
        """
        self._portal.run(lambda: self._core.ack(*receipts))

    def change_invisible_duration(self, receipt: ReceiptT, duration: timedelta) -> ReceiptT:
        """Let a message, named by itself or by its receipt handle, become visible ``duration`` (0 to 12 h) from now. Returns what names it now.

        An extension is no retry: the delivery goes on, and its handle stays good. Zero ends it at once as a failed attempt. Messages of a
        message group that were received together become visible together: a change for one is a change for all, and of one that is not the
        first only an extension is taken. Raises as `ack` does, and `InvalidArgument` for a duration out of range.
        """
        return self._portal.run(lambda: self._core.change_invisible_duration(receipt, duration))
