"""SendMessage and RecallMessage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ....aio import Lake
from ....log import Message, MessageNotFound, PenstockError, SendResult
from ....log.limits import MIB
from ....log.paths import AUDIT_TOPIC
from ....log.topic.topics import Topic
from ...bounds.quotas import QuotaCounter
from ...topics.directory import TopicDirectory
from ...topics.producer_pool import ProducerPool
from ..protocol import rocketmq_pb2 as pb
from ..protocol.handles import recall_of
from ..protocol.resources import topic_of
from ..protocol.status import StatusError, ok, status, status_of
from ..server.calls import REQUESTS, RpcCall
from ..server.rpcs import Rpc, rpc
from .messages import message_of, type_of
from .rows import with_row
from .transactions import GatewayTransactions

_MESSAGES_MAX = 1024
_UNPACKED_BYTES_MAX = 32 * MIB
"""All unpacked bodies of a request. Packed ones may be a thousand times smaller."""


class SendService:
    """Sends messages of every type, and calls delayed ones back."""

    def __init__(
        self, lake: Lake, names: TopicDirectory, producers: ProducerPool, transacting: GatewayTransactions, shares: QuotaCounter
    ) -> None:
        self._lake = lake
        self._names = names
        self._producers = producers
        self._transacting = transacting
        self._shares = shares

    def rpcs(self) -> Iterable[Rpc]:
        yield rpc("SendMessage", self.send_message)
        yield rpc("RecallMessage", self.recall_message)

    async def send_message(self, request: pb.SendMessageRequest, call: RpcCall) -> pb.SendMessageResponse:
        """The answer's status is the messages' where all are alike."""
        sent = request.messages
        if not 0 < len(sent) <= _MESSAGES_MAX:
            raise StatusError(pb.BAD_REQUEST, f"a request has 1 to {_MESSAGES_MAX} messages, and this has {len(sent)}")
        name = topic_of(sent[0].topic)
        if len(sent) > 1 and any(topic_of(one.topic) != name for one in sent):
            raise StatusError(pb.BAD_REQUEST, "all messages of a request are of one topic")
        if name == AUDIT_TOPIC and not call.principal:
            raise StatusError(pb.FORBIDDEN, f"{name} is written by consoles, and by principals to whom it is granted by name")
        topic = await self._names.topic(name)
        now_ms = self._lake.runtime.clock.wall_ms()
        checked, size_bytes = [], 0
        for one in sent:
            message = message_of(one, topic.settings, now_ms=now_ms)
            size_bytes += len(message.body or b"")
            if size_bytes > _UNPACKED_BYTES_MAX:
                raise StatusError(
                    pb.PAYLOAD_TOO_LARGE, f"the bodies of a request have at most {_UNPACKED_BYTES_MAX} bytes, unpacked"
                )
            checked.append(message)
        with self._shares.hold(REQUESTS, call.owner, size_bytes):
            outcomes = [self._entry(topic, one, message) for one, message in zip(sent, checked, strict=True)]
            entries = [await outcomes[0]] if len(outcomes) == 1 else await asyncio.gather(*outcomes)
        codes = {entry.status.code for entry in entries}
        whole = entries[0].status if len(codes) == 1 else status(pb.MULTIPLE_RESULTS, "mixed results")
        return pb.SendMessageResponse(status=whole, entries=entries)

    async def _entry(self, topic: Topic, sent: pb.Message, message: Message) -> pb.SendResultEntry:
        """The outcome of one message, with its own error beside others."""
        try:
            if topic.settings.schema is not None:
                message = await with_row(topic, message)
            if type_of(sent.system_properties) == pb.TRANSACTION:
                transaction = await self._transacting.begin(topic.paths.topic, sent, message)
                return pb.SendResultEntry(status=ok(), message_id=message.message_id, transaction_id=transaction)
            result = await self._send(topic.paths.topic, message)
        except (PenstockError, StatusError) as error:
            return pb.SendResultEntry(status=status_of(error), message_id=message.message_id)
        return pb.SendResultEntry(
            status=ok(),
            message_id=result.message_id,
            transaction_id=result.message_id,
            offset=result.offset or 0,
            recall_handle=result.recall_handle,
        )

    async def _send(self, topic: str, message: Message) -> SendResult:
        producer = await self._producers.of(topic)
        try:
            return await producer.send(message)
        except PenstockError as error:
            self._producers.on_failure(topic, producer, error)
            raise

    async def recall_message(self, request: pb.RecallMessageRequest, call: RpcCall) -> pb.RecallMessageResponse:
        name = topic_of(request.topic)
        await self._names.topic(name)
        handle = recall_of(request.recall_handle, topic=name)
        try:
            recalled = await self._lake.recall(handle.encode())
        except MessageNotFound as error:
            raise StatusError(pb.NOT_FOUND, str(error)) from None
        return pb.RecallMessageResponse(status=ok(), message_id=recalled.message_id)
