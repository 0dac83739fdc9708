"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what becomes of a delivery, by its receipt handle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....coordinator import AlreadySettled, ReceiptAhead, ReceiptExpired, ReceiptOutdated
from ....coordinator.queues.receipt_handle import ReceiptHandle
from ....log import MessageView, PenstockError
from ..protocol import rocketmq_pb2 as pb
from ..protocol.handles import receipt_of
from ..protocol.resources import group_of, topic_of
from ..protocol.status import StatusError, ok, status, status_of
from ..server.calls import RpcCall
from .early_acks import EarlyAcks
from .lease_renewer import LeaseRenewer
from .pool import ConsumerPool, PooledConsumer
from .receive_parameters import changed_duration_of

_ENTRIES_MAX: Final = 1_024


class AckService:
    """Answers the RPCs that name a delivery."""

    def __init__(self, pool: ConsumerPool, keeping: LeaseRenewer) -> None:
        self._pool = pool
        self._keeping = keeping
        self._early_acks = EarlyAcks()
        keeping.on_settled.append(self._settled)

    # --- Acknowledging ------------------------------------------------------------------------------------------------------------

    async def ack_message(self, request: pb.AckMessageRequest, call: RpcCall) -> pb.AckMessageResponse:
        """Settle messages: each entry has a status of its own."""
        group, topic = group_of(request.group), topic_of(request.topic)
        if not 0 < len(request.entries) <= _ENTRIES_MAX:
            raise StatusError(
                pb.BAD_REQUEST, f"an acknowledgement has 1 to {_ENTRIES_MAX} entries, but this has {len(request.entries)}"
            )
        async with self._pool.of(group, topic) as pooled:
            ends = await self._acked(pooled, [entry.receipt_handle for entry in request.entries])
        entries = [
            pb.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=end)
            for entry, end in zip(request.entries, ends, strict=True)
        ]
        whole = ends[0] if len({end.code for end in ends}) == 1 else status(pb.MULTIPLE_RESULTS)
        return pb.AckMessageResponse(status=whole, entries=entries)

    async def _acked(self, pooled: PooledConsumer, texts: Sequence[str]) -> list[pb.Status]:
        """The status of each acknowledgement. Those of a call are carried out together."""
        ends: dict[str, BaseException | None] = {text: _refusal(text, pooled) for text in texts}
        good = [text for text, refusal in ends.items() if refusal is None]
        ends.update(zip(good, await pooled.consumer.ack_each(*good), strict=True))
        for text in good:
            if isinstance(ends[text], ReceiptAhead):
                self._early_acks.add(ReceiptHandle.decode(text), text)
                ends[text] = None
            elif ends[text] is None or isinstance(ends[text], AlreadySettled):  # settled before: the first try's answer was lost
                ends[text] = None
                self._keeping.settled(text)
                await self._ack_next(pooled, ReceiptHandle.decode(text))
        return [ok() if (error := ends[text]) is None else status_of(error) for text in texts]

    async def _settled(self, pooled: PooledConsumer, text: str) -> None:
        """Carry out what was acknowledged ahead of a message that was settled at another gateway."""
        if self._early_acks:
            await self._ack_next(pooled, ReceiptHandle.decode(text))

    async def _ack_next(self, pooled: PooledConsumer, handle: ReceiptHandle) -> None:
        """Carry out acknowledgements that came too early."""
        while (text := self._early_acks.pop_next(handle)) is not None:
            try:
                await pooled.consumer.ack(text)
            except ReceiptAhead:
                self._early_acks.add(ReceiptHandle.decode(text), text)
                return
            except PenstockError:
                return  # it comes again, as it would have with RocketMQ
            self._keeping.settled(text)

    async def without_settled(self, pooled: PooledConsumer, messages: Sequence[MessageView]) -> list[MessageView]:
        """What a client is given of these, which a receive gave: those that were acknowledged too early are settled now.

        That is so when nothing is out any more before them, and this gateway did not hear of it: the earlier ones were given up, or settled
        elsewhere. What comes again together with an earlier one is given, as by RocketMQ.
        """
        if not self._early_acks:
            return list(messages)
        left: list[MessageView] = []
        for view in messages:
            handle = ReceiptHandle.decode(view.receipt_handle)
            is_first = all(view.message_group != one.message_group for one in left)
            text = self._early_acks.pop(handle) if is_first else None
            if text is not None and await self._is_settled_now(pooled, text, view):
                self._keeping.forget(view.receipt_handle)
            else:
                left.append(view)
        return left

    async def _is_settled_now(self, pooled: PooledConsumer, text: str, view: MessageView) -> bool:
        """Whether a message is settled now that was acknowledged by this handle."""
        try:
            await pooled.consumer.ack(text)
        except AlreadySettled:
            return True
        except ReceiptExpired:
            if ReceiptHandle.decode(text).attempt + 1 != view.delivery_attempt:
                return False  # its client had it again since, and did not acknowledge it
            return await pooled.consumer.ack_each(view.receipt_handle) == [None]
        except PenstockError:
            return False
        return True

    # --- Other ends ---------------------------------------------------------------------------------------------------------------

    async def change_invisible_duration(
        self, request: pb.ChangeInvisibleDurationRequest, call: RpcCall
    ) -> pb.ChangeInvisibleDurationResponse:
        """Let a message become visible at another time. The handle stays as it is. No gateway renews it any more."""
        group, topic, duration = group_of(request.group), topic_of(request.topic), changed_duration_of(request)
        async with self._pool.of(group, topic) as pooled:
            _handle(request.receipt_handle, pooled)
            await pooled.consumer.change_invisible_duration(request.receipt_handle, duration, lets_go=True)
        self._keeping.settled(request.receipt_handle)
        return pb.ChangeInvisibleDurationResponse(status=ok(), receipt_handle=request.receipt_handle)

    async def forward_message_to_dead_letter_queue(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, call: RpcCall
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Give a message up, as if its attempts were used up.

        Of a delivery that is over nothing is left to give up, and the answer says that all is well: SDKs would ask again for ever, and
        handle nothing else of the queue.
        """
        group, topic = group_of(request.group), topic_of(request.topic)
        async with self._pool.of(group, topic) as pooled:
            handle = _handle(request.receipt_handle, pooled)
            try:
                await pooled.consumer.dead_letter(request.receipt_handle)
            except (AlreadySettled, ReceiptExpired, ReceiptOutdated):
                self._keeping.settled(request.receipt_handle)
                return pb.ForwardMessageToDeadLetterQueueResponse(
                    status=pb.Status(code=pb.OK, message="this delivery was over, and nothing was given up")
                )
            self._keeping.settled(request.receipt_handle)
            await self._ack_next(pooled, handle)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=ok())


def _refusal(text: str, pooled: PooledConsumer) -> StatusError | None:
    """Why a handle names no delivery of this group and topic; the consumer checks the rest."""
    try:
        _handle(text, pooled)
    except StatusError as refusal:
        return refusal
    return None


def _handle(text: str, pooled: PooledConsumer) -> ReceiptHandle:
    """The delivery that a handle names. Raises `StatusError` for one that is none of this group and topic."""
    return receipt_of(text, group=pooled.group, topic=pooled.topic)
