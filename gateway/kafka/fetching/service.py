"""Fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ....coordinator.access.grants import Verb
from ....log import PenstockError
from ....log.errors import OffsetOutOfRange
from ....log.limits import MIB
from ....log.read.reader import Reader
from ....log.runtime.runtime import Runtime
from ....log.topic.topics import Topic
from ...topics.directory import TopicDirectory
from ..server.calls import KafkaCall
from ..tail.batch_cache import BatchCache, TopicPartition
from ..tail.epochs import check_epoch
from ..tail.followers import TopicFollowers
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from ..wire.fetch import Buffer, FetchedPartition, encode_fetch_answer
from ..wire.messages import Request
from ..wire.names import topic_of
from .log_batch_reader import LogBatchReader

ANSWER_BYTES_MAX: Final = 50 * MIB
_WAIT_S_MAX: Final = 60.0
_NO_SESSION: Final = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """One partition of a request."""

    topic: str
    partition: int
    offset: int
    epoch: int
    """The epoch that the client knows; -1: none."""
    bytes_max: int


class FetchService:
    """Answers Fetch: with batches at hand where there are, and without sessions, so that any gateway can answer any request."""

    def __init__(self, names: TopicDirectory, cache: BatchCache, followers: TopicFollowers, runtime: Runtime) -> None:
        self._names, self._cache, self._followers, self._clock = names, cache, followers, runtime.clock
        self._reader = LogBatchReader(cache, runtime)
        self._ending = asyncio.Event()

    async def fetch(self, request: Request, call: KafkaCall) -> Sequence[Buffer]:
        """The answer has at least one batch, if there is any, even where it is larger than the limits."""
        if request.session_id != _NO_SESSION:
            return encode_fetch_answer(call.version, (), code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        asked = [
            _Asked(one.topic, part.partition, part.fetch_offset, part.current_leader_epoch, part.partition_max_bytes)
            for one in request.topics
            for part in one.partitions
        ]
        until_s = self._clock.monotonic_s() + min(max(0, request.max_wait_ms) / 1000, _WAIT_S_MAX)
        bytes_max = min(max(1, request.max_bytes), ANSWER_BYTES_MAX)
        while True:
            topics = {name: await self._topic(name, call) for name in dict.fromkeys(one.topic for one in asked)}
            # Asked for before anything is looked at: what comes meanwhile sets them.
            moved = [self._followers.of(topic).moved() for topic in topics.values() if isinstance(topic, Topic)]
            found = await self._found(asked, topics, bytes_max)
            size_bytes = sum(one.records_bytes for one in found)
            left_s = until_s - self._clock.monotonic_s()
            is_enough = size_bytes >= request.min_bytes or any(one.code for one in found)
            call.code = next((one.code for one in found if one.code), ErrorCode.NONE)
            if is_enough or left_s <= 0 or self._ending.is_set() or not asked:
                return encode_fetch_answer(call.version, found)
            await self._followers.wait([*moved, self._ending], left_s)
            await call.check_again()

    async def _topic(self, name: str, call: KafkaCall) -> Topic | ErrorCode:
        try:
            call.rights.check(Verb.RECEIVE, topic_of(name))
            return await self._names.topic(name)
        except (KafkaRefusal, PenstockError) as error:
            return refusal_of(error).code

    async def _found(self, asked: Sequence[_Asked], topics: dict[str, Topic | ErrorCode], bytes_max: int) -> list[FetchedPartition]:
        found: list[FetchedPartition] = []
        for one in asked:
            topic = topics[one.topic]
            if isinstance(topic, ErrorCode):
                found.append(FetchedPartition(topic=one.topic, partition=one.partition, code=topic))
                continue
            try:
                part = await self._of_partition(topic, one, bytes_max)
            except (KafkaRefusal, PenstockError) as error:
                part = FetchedPartition(topic=one.topic, partition=one.partition, code=refusal_of(error).code)
            bytes_max -= part.records_bytes
            found.append(part)
        return found

    async def _of_partition(self, topic: Topic, asked: _Asked, bytes_max: int) -> FetchedPartition:
        if not 0 <= asked.partition < topic.settings.queues:
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{asked.topic} has no partition {asked.partition}")
        check_epoch(topic, asked.epoch)
        earliest, limit = topic.beside(Reader).known_offsets()[asked.partition]
        place = FetchedPartition(
            topic=asked.topic, partition=asked.partition, high_watermark=limit, last_stable_offset=limit, log_start_offset=earliest
        )
        if asked.offset > limit:  # another gateway may have appended what it has
            await topic.tail.catch_up()
            limit = topic.tail.state.next_offsets[asked.partition]
            place = replace(place, high_watermark=limit, last_stable_offset=limit)
        if not earliest <= asked.offset <= limit:
            return replace(place, code=ErrorCode.OFFSET_OUT_OF_RANGE)
        if asked.offset == limit or bytes_max <= 0:
            return place
        partition = TopicPartition(topic.record.incarnation, asked.partition)
        offset = asked.offset
        if next(self._cache.from_offset(partition, offset), None) is None:
            try:
                offset = await self._reader.read(topic, asked.partition, offset)
            except OffsetOutOfRange:
                return replace(place, code=ErrorCode.OFFSET_OUT_OF_RANGE)
        records: list[Buffer] = []
        room = min(asked.bytes_max, bytes_max)
        for batch in self._cache.from_offset(partition, offset):
            if batch.limit_offset > limit or (records and len(batch.data) > room):
                break
            records.append(batch.data)
            room -= len(batch.data)
        return replace(place, records=records)

    def end(self) -> None:
        """Answer waiting calls with what there is."""
        self._ending.set()
