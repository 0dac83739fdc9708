"""Gathers what all clients produce to a topic: what comes during an append becomes the next one, decoded at once and written as one entry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ....log import PenstockError
from ....log.errors import CallError
from ....log.produce.receipts import SendBatchResult
from ....log.runtime.runtime import Runtime
from ....log.topic.topics import Topic
from ...topics.producer_pool import ProducerPool
from ..records.batches import KafkaBatch, stamped
from ..tail.batch_cache import BatchCache, CachedBatch, TopicPartition
from .forming import FormedRows, behind_lost, form, is_behind, place_of, without_unfit


def _new_future() -> asyncio.Future[int | None]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False, slots=True)
class PendingBatch:
    """A batch on its way into the log."""

    queue: int
    batch: KafkaBatch
    base_offset: asyncio.Future[int | None] = field(default_factory=_new_future)
    """The offset of its first record. None: it is written, and the log was trimmed past it."""

    def fail(self, error: Exception) -> None:
        self.base_offset.set_exception(error)
        self.base_offset.exception()  # nobody may ask: acks=0


class TopicGather:
    """The appends of one topic, one after the other."""

    def __init__(self, topic: Topic, producers: ProducerPool, cache: BatchCache, runtime: Runtime) -> None:
        self._topic, self._producers, self._cache, self._runtime = topic, producers, cache, runtime
        self._waiting: list[PendingBatch] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._task is None or self._task.done()

    def add(self, pending: PendingBatch) -> None:
        self._waiting.append(pending)
        if self.is_idle:
            self._task = asyncio.ensure_future(self._run())

    async def drain(self) -> None:
        """Return when all that was added is settled."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while self._waiting:
            pending, self._waiting = self._waiting, []
            try:
                left = await self._append(pending)
            except Exception as error:  # noqa: BLE001 - whatever it is, whoever sent something must hear of it
                left = []
                for one in pending:
                    if not one.base_offset.done():
                        one.fail(error)
            self._waiting = left + self._waiting
            self._refuse_behind(pending)

    async def _append(self, pending: list[PendingBatch]) -> list[PendingBatch]:
        """Settle the first ones, and return those for which there was no room."""
        settings = self._topic.settings
        size_bytes = sum(len(one.batch.data) for one in pending)
        formed = await self._runtime.offload(lambda: form(pending, settings), size_bytes=size_bytes)
        try:
            result = await self._sent(formed)
        except CallError:
            formed = await self._runtime.offload(lambda: without_unfit(formed, pending, settings), size_bytes=size_bytes)
            result = await self._sent(formed)
        for number, refusal in formed.refused.items():
            pending[number].fail(refusal)
        if result is not None:
            self._settle([pending[number] for number in formed.sound], result)
        return pending[formed.taken :]

    async def _sent(self, formed: FormedRows) -> SendBatchResult | None:
        if not formed.sound:
            return None
        topic = self._topic.paths.topic
        producer = await self._producers.of(topic)
        try:
            return await producer.send_batch(formed.rows)
        except PenstockError as error:
            self._producers.on_failure(topic, producer, error)
            raise

    def _settle(self, written: Sequence[PendingBatch], result: SendBatchResult) -> None:
        following = {} if result.offsets is None else {queue: first for queue, (first, _) in result.offsets.items()}
        epoch, incarnation = self._topic.tail.state.generation, self._topic.record.incarnation
        for one in written:
            base_offset = following.get(one.queue)
            if base_offset is not None:
                limit_offset = following[one.queue] = base_offset + one.batch.header.record_count
                data = bytes(stamped(one.batch, base_offset, epoch).data)
                self._cache.add(TopicPartition(incarnation, one.queue), CachedBatch(base_offset, limit_offset, data))
            one.base_offset.set_result(base_offset)

    def _refuse_behind(self, pending: Sequence[PendingBatch]) -> None:
        """Refuse what waits behind a batch of its producer that was not written: written, it would overtake it."""
        failed = (one for one in pending if one.base_offset.done() and one.base_offset.exception() is not None)
        lost = {place for one in failed if (place := place_of(one)) is not None}
        if not lost:
            return
        for one in self._waiting:
            if is_behind(one, lost):
                one.fail(behind_lost())
        self._waiting = [one for one in self._waiting if not one.base_offset.done()]
