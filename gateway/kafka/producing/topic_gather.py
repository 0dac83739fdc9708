"""Gathers what all clients produce to a topic: what comes during an append becomes the next one, decoded at once and written as one entry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ....aio import Lake
from ....log.errors import CallError, TopicDeleted
from ....log.metrics import Metrics
from ....log.produce.accumulator import BatchOutcome
from ....log.produce.idempotent_appender import IdempotentAppender
from ....log.produce.idempotent_batches import AppendedBatches, BatchAnswer, BatchStatus
from ....log.produce.metrics import sends_counted
from ....log.topic.topics import Topic
from ..records.batches import KafkaBatch, stamped
from ..tail.batch_cache import BatchCache, CachedBatch, TopicPartition
from ..topics.configs import has_log_append_time
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from .forming import FormedRows, behind_lost, form, is_behind, is_numbered, numbered, place_of, without_unfit

_TURNS_TO_ANSWER: Final = 5
"""The turns of the loop from an outcome to the client. The next append keeps the loop for some milliseconds, so answers go first."""


def _new_future() -> asyncio.Future[int | None]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False, slots=True)
class PendingBatch:
    """A batch on its way into the log."""

    queue: int
    batch: KafkaBatch
    principal: str = ""
    """The principal that sent it; empty where nobody proves who it is."""
    base_offset: asyncio.Future[int | None] = field(default_factory=_new_future)
    """The offset of its first record. None: it is written, and the log was trimmed past it."""
    log_append_ms: int | None = None
    """When it was stored, where clients are shown that."""

    def fail(self, error: Exception) -> None:
        self.base_offset.set_exception(error)
        self.base_offset.exception()  # nobody may ask: acks=0


class TopicGather:
    """The appends of one topic, one after the other."""

    def __init__(self, topic: Topic, lake: Lake, cache: BatchCache, metrics: Metrics) -> None:
        self._topic, self._lake, self._cache, self._runtime = topic, lake, cache, lake.runtime
        self._count = sends_counted(metrics, topic=topic.paths.topic)
        self._appender: IdempotentAppender | None = None
        self._waiting: list[PendingBatch] = []
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    @property
    def is_idle(self) -> bool:
        return self._task is None or self._task.done()

    def add(self, pending: PendingBatch) -> None:
        self._waiting.append(pending)
        if self.is_idle:
            self._task = asyncio.ensure_future(self._run())

    async def drain(self, patience_s: float) -> None:
        """Return when all is settled. After ``patience_s`` no append begins, as each may take its whole time: what waits is refused."""
        if self._task is None:
            return
        await asyncio.wait((self._task,), timeout=patience_s)
        self._is_ending = True
        self._refuse_waiting()
        await asyncio.wait((self._task,))

    def close(self) -> None:
        if self._appender is not None:
            self._appender.close()
            self._appender = None

    async def _run(self) -> None:
        while self._waiting:
            pending, self._waiting = self._waiting, []
            try:
                left = await self._append(pending)
            except Exception as error:  # noqa: BLE001 - whatever it is, whoever sent something must hear of it
                self._note(error)
                left = []
                for one in pending:
                    if not one.base_offset.done():
                        one.fail(error)
            self._waiting = left + self._waiting
            self._refuse_behind(pending)
            for _ in range(_TURNS_TO_ANSWER):
                await asyncio.sleep(0)
            if self._is_ending:
                self._refuse_waiting()

    async def _append(self, pending: list[PendingBatch]) -> list[PendingBatch]:
        """Settle the first ones, and return those for which there was no room."""
        clock = self._runtime.clock
        settings, started_s, now_ms = self._topic.settings, clock.monotonic_s(), clock.wall_ms()
        size_bytes = sum(len(one.batch.data) for one in pending)
        formed = await self._runtime.offload(lambda: form(pending, settings, now_ms), size_bytes=size_bytes)
        try:
            appended = await self._appended(formed, pending)
        except CallError:
            formed = await self._runtime.offload(lambda: without_unfit(formed, pending, settings), size_bytes=size_bytes)
            appended = await self._appended(formed, pending)
        for number, refusal in formed.refused.items():
            pending[number].fail(refusal)
        if appended is not None:
            self._settle(formed, pending, appended)
            durable = all(pending[number].base_offset.exception() is None for number in formed.sound)
            took_s = self._runtime.clock.monotonic_s() - started_s
            self._count(BatchOutcome(formed.rows.num_rows, size_bytes, took_s, durable))
        return pending[formed.taken :]

    async def _appended(self, formed: FormedRows, pending: Sequence[PendingBatch]) -> AppendedBatches | None:
        if not formed.sound:
            return None
        if self._appender is None:
            name = self._topic.paths.topic
            opened = await self._lake.topic(name, writable=True)
            if opened.record.incarnation != self._topic.record.incarnation:
                raise TopicDeleted("the topic was deleted", operation="produce", object=name)
            self._appender = IdempotentAppender(opened)
        return await self._appender.append(formed.rows, numbered(formed, pending))

    def _settle(self, formed: FormedRows, pending: Sequence[PendingBatch], appended: AppendedBatches) -> None:
        answers = iter(appended.batches)
        plain_row = 0
        for number, count in zip(formed.sound, formed.counts, strict=True):
            one = pending[number]
            if is_numbered(one.batch.header):
                self._answer(one, next(answers))
                continue
            assert appended.plain is not None, "some rows have no idempotent producer"
            offsets, first = appended.plain.offsets, plain_row
            plain_row += count
            base_offset = None if offsets is None else int(offsets[first])
            self._answer(one, BatchAnswer(appended.plain.status, base_offset, appended.plain.store_time_ms, appended.plain.error))

    def _answer(self, one: PendingBatch, answer: BatchAnswer) -> None:
        if answer.status not in (BatchStatus.WRITTEN, BatchStatus.DUPLICATE):
            self._note(answer.error)
            one.fail(refusal_of_answer(answer))
            return
        if answer.base_offset is None and answer.status is BatchStatus.DUPLICATE:
            one.fail(KafkaRefusal(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "the batch is long in the log"))
            return
        is_appended_time = has_log_append_time(self._topic.settings)
        one.log_append_ms = answer.store_time_ms if is_appended_time else None
        is_as_written = answer.status is BatchStatus.WRITTEN and is_appended_time == (one.log_append_ms is not None)
        if answer.base_offset is not None and is_as_written:  # what comes again may say something else than the log
            epoch, incarnation = self._topic.tail.state.generation, self._topic.record.incarnation
            data = bytes(stamped(one.batch, answer.base_offset, epoch, one.log_append_ms).data)
            limit_offset = answer.base_offset + one.batch.header.record_count
            self._cache.add(TopicPartition(incarnation, one.queue), CachedBatch(answer.base_offset, limit_offset, data))
        one.base_offset.set_result(answer.base_offset)

    def _note(self, error: Exception | None) -> None:
        """Take another appender for what follows a deletion or a repair."""
        if isinstance(error, TopicDeleted):
            self.close()

    def _refuse_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.fail(KafkaRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the gateway ends"))

    def _refuse_behind(self, pending: Sequence[PendingBatch]) -> None:
        """Refuse what waits behind a batch of its producer that was not written: written, it would overtake it."""
        failed = (one for one in pending if one.base_offset.done() and _is_lost(one.base_offset.exception()))
        lost = {place for one in failed if (place := place_of(one)) is not None}
        if not lost:
            return
        for one in self._waiting:
            if is_behind(one, lost):
                one.fail(behind_lost())
        self._waiting = [one for one in self._waiting if not one.base_offset.done()]


def refusal_of_answer(answer: BatchAnswer) -> KafkaRefusal:
    """What is said of a batch that is not known to be in the log."""
    match answer.status:
        case BatchStatus.OUT_OF_ORDER:
            return KafkaRefusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, str(answer.error))
        case BatchStatus.FENCED:
            return KafkaRefusal(ErrorCode.INVALID_PRODUCER_EPOCH, str(answer.error))
        case BatchStatus.UNKNOWN:
            return KafkaRefusal(ErrorCode.REQUEST_TIMED_OUT, str(answer.error))
        case _ if answer.error is not None:
            return refusal_of(answer.error)
        case _:
            return KafkaRefusal(ErrorCode.KAFKA_STORAGE_ERROR, "the batch was not written")


def _is_lost(error: BaseException | None) -> bool:
    """Whether a batch is not in the log, as far as is known. A duplicate without an offset is."""
    return error is not None and not (isinstance(error, KafkaRefusal) and error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
