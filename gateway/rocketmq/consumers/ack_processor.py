"""Acknowledgements, also too early ones, which RocketMQ takes."""

from __future__ import annotations

from collections.abc import Sequence

from ....coordinator import AlreadySettled, ReceiptAhead, ReceiptExpired
from ....coordinator.queues.receipt_handle import ReceiptHandle
from ....log import MessageView, PenstockError
from .deliveries import Deliveries
from .pool import PooledConsumer


class AckProcessor:
    """Settles messages by receipt handle, and notes it in the deliveries."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    async def ack_each(self, pooled: PooledConsumer, handles: Sequence[str]) -> list[BaseException | None]:
        """Settle messages of this group and topic together. Returns each one's error, or None."""
        ends = await pooled.consumer.ack_each(*handles)
        return [await self._on_end(pooled, handle, end) for handle, end in zip(handles, ends, strict=True)]

    async def _on_end(self, pooled: PooledConsumer, handle: str, end: BaseException | None) -> BaseException | None:
        if isinstance(end, ReceiptAhead):
            self._deliveries.early_acks.add(handle)
            return None
        if end is None or isinstance(end, AlreadySettled):  # settled before: the first try's answer was lost
            self._deliveries.settle(handle)
            if self._deliveries.early_acks:
                await self.ack_next(pooled, handle)
            return None
        return end

    async def ack_next(self, pooled: PooledConsumer, handle: str) -> None:
        """Carry out early acknowledgements, after an earlier message was settled here or elsewhere."""
        while (early := self._deliveries.early_acks.pop_next(handle)) is not None:
            try:
                await pooled.consumer.ack(early)
            except ReceiptAhead:
                self._deliveries.early_acks.add(early)
                return
            except PenstockError:
                return  # it comes again, as it would have with RocketMQ
            self._deliveries.settle(early)

    async def without_settled(self, pooled: PooledConsumer, messages: Sequence[MessageView]) -> list[MessageView]:
        """The received messages without those acknowledged too early, which are settled now. One that comes again together with an earlier one is
        given, as by RocketMQ.
        """
        if not self._deliveries.early_acks:
            return list(messages)
        left: list[MessageView] = []
        for view in messages:
            is_first = all(view.message_group != one.message_group for one in left)
            early = self._deliveries.early_acks.pop(view.receipt_handle) if is_first else None
            if early is not None and await self._is_settled_now(pooled, early, view):
                self._deliveries.forget(view.receipt_handle)
            else:
                left.append(view)
        return left

    async def _is_settled_now(self, pooled: PooledConsumer, early: str, view: MessageView) -> bool:
        try:
            await pooled.consumer.ack(early)
        except AlreadySettled:
            return True
        except ReceiptExpired:
            if ReceiptHandle.decode(early).attempt + 1 != view.delivery_attempt:
                return False  # its client had it again since, and did not acknowledge it
            return await pooled.consumer.ack_each(view.receipt_handle) == [None]
        except PenstockError:
            return False
        return True
