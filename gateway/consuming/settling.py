"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what becomes of a delivery, by its receipt handle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from ...coordinator import AlreadySettled, ReceiptAhead, ReceiptExpired, ReceiptOutdated
from ...coordinator.queues.receipt_handle import ReceiptHandle
from ...log import InvalidArgument, PenstockError
from ..protocol import rocketmq_pb2 as pb
from ..protocol.resources import group_of, topic_of
from ..protocol.status import Refused, ok, status, status_of
from ..server.calls import Call
from .keeping import Keeping
from .pool import Pool, Pooled
from .wanted import changed_duration_of

_ENTRIES_MAX: Final = 1_024
_AHEAD_MAX: Final = 65_536
"""The number of acknowledgements that are kept until earlier messages are settled. Beyond, the oldest are forgotten: these come again."""

_Lane = tuple[str, str, int, int]
"""Group, topic, queue and the number of the message group."""


class Ahead:
    """Acknowledgements that came before those of earlier messages of their message group.

    RocketMQ takes them, and gives the messages again if an earlier one is not acknowledged in time. So does the gateway: it carries them out
    when the earlier ones are settled.
    """

    def __init__(self, most: int = _AHEAD_MAX) -> None:
        self._most = most
        self._kept: OrderedDict[str, _Lane] = OrderedDict()
        self._of_lane: dict[_Lane, dict[int, str]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, handle: ReceiptHandle, text: str) -> None:
        """Keep an acknowledgement."""
        lane = _lane(handle)
        if lane is None or text in self._kept:
            return
        self._kept[text] = lane
        self._of_lane.setdefault(lane, {})[handle.offset] = text
        if len(self._kept) > self._most:
            self._forget(next(iter(self._kept)))

    def _forget(self, text: str) -> None:
        lane = self._kept.pop(text)
        offsets = {offset: one for offset, one in self._of_lane[lane].items() if one != text}
        if offsets:
            self._of_lane[lane] = offsets
        else:
            del self._of_lane[lane]

    def after(self, handle: ReceiptHandle) -> str | None:
        """The next acknowledgement to carry out, after a message of its message group was settled. It is kept no longer."""
        lane = _lane(handle)
        offsets = {} if lane is None else self._of_lane.get(lane, {})
        if not offsets:
            return None
        text = offsets[min(offsets)]
        self._forget(text)
        return text


def _lane(handle: ReceiptHandle) -> _Lane | None:
    return None if handle.lane is None else (handle.group, handle.topic, handle.queue, handle.lane)


class Settling:
    """Answers the RPCs that name a delivery."""

    def __init__(self, pool: Pool, keeping: Keeping) -> None:
        self._pool = pool
        self._keeping = keeping
        self._ahead = Ahead()

    # --- Acknowledging ------------------------------------------------------------------------------------------------------------

    async def ack_message(self, request: pb.AckMessageRequest, call: Call) -> pb.AckMessageResponse:
        """Settle messages: each entry has a status of its own."""
        group, topic = group_of(request.group), topic_of(request.topic)
        if not 0 < len(request.entries) <= _ENTRIES_MAX:
            raise Refused(
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

    async def _acked(self, pooled: Pooled, texts: Sequence[str]) -> list[pb.Status]:
        """The status of each acknowledgement. Those of a call are carried out together."""
        ends: dict[str, BaseException | None] = {text: _refusal(text, pooled) for text in texts}
        good = [text for text, refusal in ends.items() if refusal is None]
        ends.update(zip(good, await pooled.consumer.ack_each(*good), strict=True))
        for text in good:
            if isinstance(ends[text], ReceiptAhead):
                self._ahead.keep(ReceiptHandle.decode(text), text)
                ends[text] = None
            elif ends[text] is None or isinstance(ends[text], AlreadySettled):  # settled before: the first try's answer was lost
                ends[text] = None
                self._keeping.settled(text)
                await self._go_on(pooled, ReceiptHandle.decode(text))
        return [ok() if (error := ends[text]) is None else status_of(error) for text in texts]

    async def _go_on(self, pooled: Pooled, handle: ReceiptHandle) -> None:
        """Carry out acknowledgements that came too early."""
        while (text := self._ahead.after(handle)) is not None:
            try:
                await pooled.consumer.ack(text)
            except ReceiptAhead:
                self._ahead.keep(ReceiptHandle.decode(text), text)
                return
            except PenstockError:
                return  # it comes again, as it would have with RocketMQ
            self._keeping.settled(text)

    # --- Other ends ---------------------------------------------------------------------------------------------------------------

    async def change_invisible_duration(
        self, request: pb.ChangeInvisibleDurationRequest, call: Call
    ) -> pb.ChangeInvisibleDurationResponse:
        """Let a message become visible at another time. The handle stays as it is."""
        group, topic, duration = group_of(request.group), topic_of(request.topic), changed_duration_of(request)
        async with self._pool.of(group, topic) as pooled:
            _handle(request.receipt_handle, pooled)
            await pooled.consumer.change_invisible_duration(request.receipt_handle, duration)
        self._keeping.settled(request.receipt_handle)
        return pb.ChangeInvisibleDurationResponse(status=ok(), receipt_handle=request.receipt_handle)

    async def forward_message_to_dead_letter_queue(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, call: Call
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
            await self._go_on(pooled, handle)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=ok())


def _refusal(text: str, pooled: Pooled) -> Refused | None:
    """Why a handle names no delivery of this topic; the consumer checks the rest."""
    try:
        topic = ReceiptHandle.decode(text).topic
    except InvalidArgument as error:
        return Refused(pb.INVALID_RECEIPT_HANDLE, str(error))
    if topic != pooled.topic:
        return Refused(pb.INVALID_RECEIPT_HANDLE, f"the receipt handle is of topic {topic}, and not of {pooled.topic}")
    return None


def _handle(text: str, pooled: Pooled) -> ReceiptHandle:
    """The delivery that a handle names. Raises `Refused` for one that is none of this topic."""
    if (refusal := _refusal(text, pooled)) is not None:
        raise refusal
    return ReceiptHandle.decode(text)
