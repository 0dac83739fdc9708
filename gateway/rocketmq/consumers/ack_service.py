"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....coordinator import AlreadySettled, ReceiptExpired, ReceiptOutdated
from ..protocol import rocketmq_pb2 as pb
from ..protocol.handles import receipt_of
from ..protocol.resources import group_of, topic_of
from ..protocol.status import StatusError, ok, status, status_of
from ..server.calls import RpcCall
from .ack_processor import AckProcessor
from .deliveries import Deliveries
from .pool import ConsumerPool, PooledConsumer
from .receive_parameters import changed_duration_of

_ENTRIES_MAX: Final = 1_024


class AckService:
    """The RPCs that name a delivery."""

    def __init__(self, pool: ConsumerPool, deliveries: Deliveries, acks: AckProcessor) -> None:
        self._pool = pool
        self._deliveries = deliveries
        self._acks = acks

    async def ack_message(self, request: pb.AckMessageRequest, call: RpcCall) -> pb.AckMessageResponse:
        """Settle messages, each with a status of its own."""
        group, topic = group_of(request.group), topic_of(request.topic)
        if not 0 < len(request.entries) <= _ENTRIES_MAX:
            raise StatusError(
                pb.BAD_REQUEST, f"an acknowledgement has 1 to {_ENTRIES_MAX} entries, but this has {len(request.entries)}"
            )
        async with self._pool.of(group, topic) as pooled:
            ends = await self._ack(pooled, [entry.receipt_handle for entry in request.entries])
        entries = [
            pb.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=end)
            for entry, end in zip(request.entries, ends, strict=True)
        ]
        whole = ends[0] if len(ends) == 1 or len({end.code for end in ends}) == 1 else status(pb.MULTIPLE_RESULTS)
        return pb.AckMessageResponse(status=whole, entries=entries)

    async def _ack(self, pooled: PooledConsumer, texts: Sequence[str]) -> list[pb.Status]:
        if len(texts) == 1 and _is_known(texts[0], pooled):
            (end,) = await self._acks.ack_each(pooled, texts)
            return [ok() if end is None else status_of(end)]
        ends: dict[str, BaseException | None] = {text: _refusal(text, pooled) for text in texts}
        good = [text for text, refusal in ends.items() if refusal is None]
        ends.update(zip(good, await self._acks.ack_each(pooled, good), strict=True))
        return [ok() if (error := ends[text]) is None else status_of(error) for text in texts]

    async def change_invisible_duration(
        self, request: pb.ChangeInvisibleDurationRequest, call: RpcCall
    ) -> pb.ChangeInvisibleDurationResponse:
        """The handle stays the same, and is not renewed any more."""
        group, topic, duration = group_of(request.group), topic_of(request.topic), changed_duration_of(request)
        async with self._pool.of(group, topic) as pooled:
            _check(request.receipt_handle, pooled)
            await pooled.consumer.change_invisible_duration(request.receipt_handle, duration, lets_go=True)
        self._deliveries.settle(request.receipt_handle)
        return pb.ChangeInvisibleDurationResponse(status=ok(), receipt_handle=request.receipt_handle)

    async def forward_message_to_dead_letter_queue(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, call: RpcCall
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """An ended delivery is answered with OK: SDKs would otherwise ask again for ever, and handle nothing else of the queue."""
        group, topic = group_of(request.group), topic_of(request.topic)
        async with self._pool.of(group, topic) as pooled:
            _check(request.receipt_handle, pooled)
            try:
                await pooled.consumer.dead_letter(request.receipt_handle)
            except (AlreadySettled, ReceiptExpired, ReceiptOutdated):
                self._deliveries.settle(request.receipt_handle)
                return pb.ForwardMessageToDeadLetterQueueResponse(
                    status=pb.Status(code=pb.OK, message="this delivery was over, and nothing was given up")
                )
            self._deliveries.settle(request.receipt_handle)
            await self._acks.ack_next(pooled, request.receipt_handle)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=ok())


def _refusal(text: str, pooled: PooledConsumer) -> StatusError | None:
    try:
        _check(text, pooled)
    except StatusError as refusal:
        return refusal
    return None


def _check(text: str, pooled: PooledConsumer) -> None:
    if not _is_known(text, pooled):
        receipt_of(text, group=pooled.group, topic=pooled.topic)


def _is_known(text: str, pooled: PooledConsumer) -> bool:
    """Whether a handle is of this group and topic, by what was made here."""
    made = pooled.consumer.known_handle(text)
    return made is not None and made.topic == pooled.topic
