"""ListOffsets."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from ....coordinator.access.grants import Verb
from ....log import PenstockError
from ....log.limits import TIME_MAX_MS
from ....log.read.reader import Reader
from ....log.topic.topics import Topic
from ...topics.directory import TopicDirectory
from ..server.calls import KafkaCall
from ..tail.epochs import check_epoch
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from ..wire.messages import Fields, Request
from ..wire.names import topic_of
from .configs import has_log_append_time

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OF_TABLE: Final = frozenset({EARLIEST, EARLIEST_LOCAL, MAX_TIMESTAMP})
"""What is asked of the newest table, which is read once for all partitions."""


class _Place(NamedTuple):
    offset: int = -1
    timestamp_ms: int = -1


class OffsetsService:
    """Finds offsets by time, and the ends of partitions."""

    def __init__(self, names: TopicDirectory) -> None:
        self._names = names

    async def list_offsets(self, request: Request, call: KafkaCall) -> Fields:
        topics = await asyncio.gather(*(self._of_topic(one.name, one.partitions, call) for one in request.topics))
        return {"throttle_time_ms": 0, "topics": topics}

    async def _of_topic(self, name: str, asked: Request, call: KafkaCall) -> Fields:
        try:
            call.rights.check(Verb.RECEIVE, topic_of(name))
            topic = await self._names.known_topic(name)
            timestamps = {one.timestamp for one in asked}
            if not _OF_TABLE.isdisjoint(timestamps):
                await topic.beside(Reader).offsets()
            elif LATEST in timestamps:
                await topic.tail.catch_up()
                topic = await self._names.known_topic(name)  # the log may have gone on to a later life
        except (KafkaRefusal, PenstockError) as error:
            code = refusal_of(error).code
            return {"name": name, "partitions": [_refused(one.partition_index, code) for one in asked]}
        named = Counter(one.partition_index for one in asked)
        return {"name": name, "partitions": [await self._of_partition(topic, one, named) for one in asked]}

    async def _of_partition(self, topic: Topic, asked: Request, named: Counter[int]) -> Fields:
        try:
            if named[asked.partition_index] > 1:
                told = f"{topic.paths.topic} names partition {asked.partition_index} several times"
                raise KafkaRefusal(ErrorCode.INVALID_REQUEST, told)
            if not 0 <= asked.partition_index < topic.settings.queues:
                told = f"{topic.paths.topic} has no partition {asked.partition_index}"
                raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, told)
            check_epoch(topic, asked.current_leader_epoch)
            found = await place_of(topic, asked.partition_index, asked.timestamp)
        except (KafkaRefusal, PenstockError) as error:
            return _refused(asked.partition_index, refusal_of(error).code)
        return {
            "partition_index": asked.partition_index,
            "error_code": ErrorCode.NONE,
            "timestamp": found.timestamp_ms,
            "offset": found.offset,
            "leader_epoch": topic.tail.state.generation,
        }


async def place_of(topic: Topic, queue: int, timestamp: int) -> _Place:
    """The offset of an end as far as is known, or of the first message born at a time or later, with that time; -1 where there is none.
    Stored instead of born, in a topic whose clients are shown that.

    `MAX_TIMESTAMP` is the place of the last message, which has the latest time unless senders stated others.
    """
    reader, column = topic.beside(Reader), "store_timestamp" if has_log_append_time(topic.settings) else "born_timestamp"
    earliest, limit = reader.known_offsets_of(queue)
    if timestamp == LATEST:
        return _Place(limit)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _Place(earliest)
    if timestamp == MAX_TIMESTAMP:
        return await _first_from(reader, column, queue, limit - 1, 0) if earliest < limit else _Place()
    if timestamp < 0:
        raise KafkaRefusal(ErrorCode.UNSUPPORTED_VERSION, f"{timestamp} is no time, and no place that is known here")
    if timestamp > TIME_MAX_MS:
        return _Place()
    at = _EPOCH + timedelta(milliseconds=timestamp)
    # What is before was stored, and so born, before that time.
    start = (await reader.resolve(at, queues=[queue]))[queue]
    return await _first_from(reader, column, queue, start, timestamp)


async def _first_from(reader: Reader, column: str, queue: int, start: int, timestamp_ms: int) -> _Place:
    source = reader.read(queue=queue, start=start, columns=["offset", column])
    try:
        async for rows in source:
            times_ms = rows[column].cast("int64").to_numpy() // 1000
            late = (times_ms >= timestamp_ms).nonzero()[0]
            if len(late):
                at = int(late[0])
                return _Place(rows["offset"][at].as_py(), int(times_ms[at]))
    finally:
        await source.aclose()
    return _Place()


def _refused(partition: int, code: ErrorCode) -> Fields:
    return {"partition_index": partition, "error_code": code, "timestamp": -1, "offset": -1, "leader_epoch": -1}
