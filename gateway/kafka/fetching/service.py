"""Fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ....coordinator.access.grants import Verb
from ....log import PenstockError
from ....log.limits import MIB
from ....log.metrics import Counter, Metrics
from ....log.read.reader import Reader
from ....log.runtime.runtime import Runtime
from ....log.topic.topics import Topic
from ...topics.directory import TopicDirectory
from ..metrics import FETCHED_BYTES
from ..server.calls import KafkaCall
from ..tail.batch_cache import BatchCache, CachedBatch, TopicPartition
from ..tail.epochs import check_epoch
from ..tail.followers import TopicFollowers
from ..tail.signal import Signal, wait_any
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from ..wire.fetch import Buffer, FetchedPartition, encode_fetch_answer
from ..wire.messages import Request
from ..wire.names import topic_of
from .log_batch_reader import LogBatchReader

ANSWER_BYTES_MAX: Final = 50 * MIB
_WAIT_S_MAX: Final = 60.0
_FULL: Final = frozenset({-1, 0})
"""The epochs of a Fetch that names all its partitions. It begins or ends a session, or has none."""


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

    def __init__(
        self, names: TopicDirectory, cache: BatchCache, followers: TopicFollowers, runtime: Runtime, metrics: Metrics
    ) -> None:
        self._metrics = metrics
        self._counted: dict[str, Counter] = {}
        """The bytes that were fetched, by topic."""
        self._names, self._cache, self._followers, self._clock = names, cache, followers, runtime.clock
        self._reader = LogBatchReader(cache, runtime)
        self._end = Signal()

    async def fetch(self, request: Request, call: KafkaCall) -> Sequence[Buffer]:
        """The answer has at least one batch, if there is any, even where it is larger than the limits."""
        if request.session_epoch not in _FULL:
            return encode_fetch_answer(call.version, (), code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        asked = list(
            {
                (one.topic, part.partition): _Asked(
                    one.topic, part.partition, part.fetch_offset, part.current_leader_epoch, part.partition_max_bytes
                )
                for one in request.topics
                for part in one.partitions
            }.values()
        )
        until_s = self._clock.monotonic_s() + min(max(0, request.max_wait_ms) / 1000, _WAIT_S_MAX)
        bytes_max = min(max(1, request.max_bytes), ANSWER_BYTES_MAX)
        while True:
            topics = {name: await self._topic(name, call) for name in dict.fromkeys(one.topic for one in asked)}
            # Asked for before anything is looked at: what comes meanwhile gives them.
            moved = [self._followers.of(topic).moved() for topic in topics.values() if isinstance(topic, Topic)]
            seen = [(signal, signal.given) for signal in (*moved, self._end)]
            found, is_part = await self._found(asked, topics, bytes_max)
            size_bytes = sum(one.records_bytes for one in found)
            left_s = until_s - self._clock.monotonic_s()
            is_enough = size_bytes >= min(request.min_bytes, bytes_max) or is_part or any(one.code for one in found)
            call.code = next((one.code for one in found if one.code), ErrorCode.NONE)
            if is_enough or left_s <= 0 or self._end.given or not asked:
                return self._answer(found, call)
            has_moved = await wait_any(seen, left_s)
            await call.check_again()
            if not has_moved:  # most waits end so: nothing is looked at again
                return self._answer(found, call)

    def _answer(self, found: Sequence[FetchedPartition], call: KafkaCall) -> Sequence[Buffer]:
        for one in found:
            if size_bytes := one.records_bytes:
                counted = self._counted.get(one.topic)
                if counted is None:
                    counted = self._counted[one.topic] = self._metrics.counter(FETCHED_BYTES, topic=one.topic)
                counted.add(size_bytes)
        return encode_fetch_answer(call.version, found, throttle_ms=call.throttle_ms)

    async def _topic(self, name: str, call: KafkaCall) -> Topic | ErrorCode:
        try:
            call.rights.check(Verb.RECEIVE, topic_of(name))
            return await self._names.known_topic(name)  # a consumer that goes on must not undo a deletion
        except (KafkaRefusal, PenstockError) as error:
            return refusal_of(error).code

    async def _found(
        self, asked: Sequence[_Asked], topics: dict[str, Topic | ErrorCode], bytes_max: int
    ) -> tuple[list[FetchedPartition], bool]:
        """The answer's partitions, and whether more than they have is in the log, so that a wait for more is of no use."""
        places = [await self._place(topics[one.topic], one) for one in asked]
        starts = await self._starts(asked, topics, places)
        found: list[FetchedPartition] = []
        is_part = False
        for one, place in zip(asked, places, strict=True):
            topic, start = topics[one.topic], starts.get((one.topic, one.partition), one.offset)
            if isinstance(start, PenstockError):
                found.append(replace(place, code=refusal_of(start).code))
                continue
            if isinstance(topic, Topic) and not place.code and bytes_max > 0:
                partition = TopicPartition(topic.record.incarnation, one.partition)
                batches = self._batches(partition, start, place.high_watermark, min(one.bytes_max, bytes_max))
                is_part = is_part or (batches[-1].limit_offset if batches else start) < place.high_watermark
                if batches:
                    place = replace(place, records=[batch.data for batch in batches])
            bytes_max -= place.records_bytes
            found.append(place)
        return found, is_part

    async def _place(self, topic: Topic | ErrorCode, asked: _Asked) -> FetchedPartition:
        """What is said of a partition beside its records."""
        if isinstance(topic, ErrorCode):
            return FetchedPartition(topic=asked.topic, partition=asked.partition, code=topic)
        try:
            if not 0 <= asked.partition < topic.settings.queues:
                raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{asked.topic} has no partition {asked.partition}")
            check_epoch(topic, asked.epoch)
            earliest, limit = topic.beside(Reader).known_offsets_of(asked.partition)
            if asked.offset > limit:  # another gateway may have appended what it has
                await topic.tail.catch_up()
                if not topic.is_current:
                    raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{asked.topic} was deleted")
                limit = topic.tail.state.next_offset(asked.partition)
        except (KafkaRefusal, PenstockError) as error:
            return FetchedPartition(topic=asked.topic, partition=asked.partition, code=refusal_of(error).code)
        return FetchedPartition(
            topic=asked.topic,
            partition=asked.partition,
            code=ErrorCode.NONE if earliest <= asked.offset <= limit else ErrorCode.OFFSET_OUT_OF_RANGE,
            high_watermark=limit,
            last_stable_offset=limit,
            log_start_offset=earliest,
        )

    async def _starts(
        self, asked: Sequence[_Asked], topics: dict[str, Topic | ErrorCode], places: Sequence[FetchedPartition]
    ) -> dict[tuple[str, int], int | PenstockError]:
        """Where the records of partitions that are not at the end begin, by topic and partition; read if they are not at hand."""
        behind: dict[str, dict[int, int]] = {}
        for one, place in zip(asked, places, strict=True):
            if not place.code and one.offset < place.high_watermark:
                behind.setdefault(one.topic, {})[one.partition] = one.offset
        starts: dict[tuple[str, int], int | PenstockError] = {}
        for name, offsets in behind.items():
            topic = topics[name]
            assert isinstance(topic, Topic), "it has offsets"
            found: Mapping[int, int | PenstockError]
            try:
                found = await self._reader.read(topic, offsets)
            except PenstockError as error:
                found = dict.fromkeys(offsets, error)
            starts |= {(name, partition): start for partition, start in found.items()}
        return starts

    def _batches(self, partition: TopicPartition, start: int, limit: int, bytes_max: int) -> list[CachedBatch]:
        """Batches from an offset on, one at least if there is any."""
        found: list[CachedBatch] = []
        for batch in self._cache.from_offset(partition, start):
            if batch.limit_offset > limit or (found and len(batch.data) > bytes_max):
                break
            found.append(batch)
            bytes_max -= len(batch.data)
        return found

    def end(self) -> None:
        """Answer waiting calls with what there is."""
        self._end.give()
