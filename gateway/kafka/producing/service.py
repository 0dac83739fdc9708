"""Produce, and InitProducerId."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ....aio import Lake
from ....coordinator.access.grants import Verb
from ....log import PenstockError
from ....log.metrics import Metrics
from ....log.topic.topics import Topic
from ...topics.directory import TopicDirectory
from ..records.batches import KafkaBatch, batches_of, check_batch
from ..records.errors import RecordsError
from ..server.calls import KafkaCall
from ..tail.batch_cache import BatchCache
from ..topics.configs import batch_bytes_max
from ..wire.errors import ErrorCode, KafkaRefusal, no_transactions, refusal_of
from ..wire.fetch import Buffer
from ..wire.messages import Fields, Request
from ..wire.names import topic_of
from ..wire.produce import ProducedPartition, ProducedRecords, ProduceRequest, encode_produce_answer
from .forming import is_numbered, refusal_of_records
from .topic_gather import PendingBatch, TopicGather

_DRAIN_S: Final = 5.0
"""The time in which appends for clients that are gone may still begin."""
_ACKS: Final = frozenset({-1, 0, 1})
_PRODUCER_ID_BITS: Final = 63


class ProduceService:
    """Appends what clients produce. An answer means durable, whatever ``acks`` says."""

    def __init__(self, lake: Lake, names: TopicDirectory, cache: BatchCache, metrics: Metrics) -> None:
        self._lake, self._names, self._cache, self._metrics = lake, names, cache, metrics
        self._gathers: dict[str, TopicGather] = {}
        """The gathers by the topics' incarnation."""

    async def init_producer_id(self, request: Request, call: KafkaCall) -> Fields:
        """A producer id is drawn, and nothing is written."""
        if request.transactional_id is not None:
            raise no_transactions()
        producer_id = self._lake.runtime.random.getrandbits(_PRODUCER_ID_BITS)
        return {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}

    async def produce(self, request: ProduceRequest, call: KafkaCall) -> Sequence[Buffer] | None:
        if request.acks not in _ACKS:
            raise KafkaRefusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}")
        if request.transactional_id is not None:
            raise no_transactions()
        # Requests of a connection are appended in their order, whatever topics must be opened first.
        async with call.session.producing:
            topics = {name: await self._topic(name, call) for name in dict.fromkeys(part.topic for part in request.parts)}
            added = [self._added(part, topics[part.topic], call.principal) for part in request.parts]
        if pending := [one.base_offset for one in added if isinstance(one, PendingBatch)]:
            await asyncio.wait(pending, timeout=request.timeout_ms / 1000 if request.timeout_ms > 0 else None)
        parts = [_told(part, one) for part, one in zip(request.parts, added, strict=True)]
        call.code = next((part.code for part in parts if part.code), ErrorCode.NONE)
        if request.acks != 0:
            return [encode_produce_answer(call.version, parts, throttle_ms=call.throttle_ms)]
        if call.code:  # as in Kafka: the end of the connection makes the client ask for metadata anew
            raise KafkaRefusal(call.code, next(part.message or "" for part in parts if part.code))
        return None

    async def _topic(self, name: str, call: KafkaCall) -> Topic | KafkaRefusal:
        try:
            call.rights.check(Verb.SEND, topic_of(name))
            topic = await self._names.known_topic(name)
        except (KafkaRefusal, PenstockError) as error:
            return refusal_of(error)
        if topic.settings.schema is not None:
            return KafkaRefusal(ErrorCode.INVALID_RECORD, f"{name} has a schema: its rows are not sent by Kafka's protocol")
        return topic

    def _added(self, part: ProducedRecords, topic: Topic | KafkaRefusal, principal: str) -> PendingBatch | KafkaRefusal:
        if isinstance(topic, KafkaRefusal):
            return topic
        try:
            return self._pending(part, topic, principal)
        except RecordsError as error:
            return refusal_of_records(error)
        except KafkaRefusal as refusal:
            return refusal

    def _pending(self, part: ProducedRecords, topic: Topic, principal: str) -> PendingBatch:
        if not 0 <= part.partition < topic.settings.queues:
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{part.topic} has no partition {part.partition}")
        pending = PendingBatch(part.partition, _batch_of(part, batch_bytes_max(topic.settings)), principal)
        incarnation = topic.record.incarnation
        gather = self._gathers.get(incarnation)
        if gather is None:
            gather = self._gathers[incarnation] = TopicGather(topic, self._lake, self._cache, self._metrics)
        gather.add(pending)
        return pending

    def forget_idle(self) -> None:
        for incarnation, gather in list(self._gathers.items()):
            if gather.is_idle:
                gather.close()
                del self._gathers[incarnation]

    async def drain(self) -> None:
        gathers = list(self._gathers.values())
        await asyncio.gather(*(gather.drain(_DRAIN_S) for gather in gathers))
        for gather in gathers:
            gather.close()


def _told(part: ProducedRecords, added: PendingBatch | KafkaRefusal) -> ProducedPartition:
    try:
        if isinstance(added, KafkaRefusal):
            raise added
        if not added.base_offset.done():
            raise KafkaRefusal(ErrorCode.REQUEST_TIMED_OUT, "the time that the request allows is over, and the append is under way")
        base_offset = added.base_offset.result()
    except (KafkaRefusal, PenstockError) as error:
        refusal = refusal_of(error)
        bad = [(record, refusal.message) for record in refusal.records]
        return ProducedPartition(
            topic=part.topic, partition=part.partition, code=refusal.code, record_errors=bad, message=refusal.message
        )
    return ProducedPartition(
        topic=part.topic,
        partition=part.partition,
        base_offset=-1 if base_offset is None else base_offset,
        log_append_ms=-1 if added.log_append_ms is None else added.log_append_ms,
    )


def _batch_of(part: ProducedRecords, bytes_max: int) -> KafkaBatch:
    """The one batch. Raises `KafkaRefusal` or `RecordsError`."""
    batches = batches_of(part.records or b"")
    if len(batches) != 1:
        raise KafkaRefusal(
            ErrorCode.INVALID_RECORD, f"there are {len(batches)} batches for a partition, where Kafka's clients send one"
        )
    batch = batches[0]
    if batch.header.size_bytes > bytes_max:
        told = f"the batch has {batch.header.size_bytes} bytes, and may have {bytes_max}"
        raise KafkaRefusal(ErrorCode.MESSAGE_TOO_LARGE, told)
    if batch.header.is_control:
        raise KafkaRefusal(ErrorCode.INVALID_RECORD, "control batches are not a client's")
    if batch.header.is_transactional:
        raise no_transactions()
    if is_numbered(batch.header) and min(batch.header.producer_id, batch.header.producer_epoch, batch.header.base_sequence) < 0:
        raise KafkaRefusal(ErrorCode.INVALID_RECORD, "a batch has a producer's id, epoch and sequence, or none of them")
    check_batch(batch)
    return batch
