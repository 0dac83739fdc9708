"""PullMessage, QueryOffset, GetOffset and UpdateOffset: reading a queue at the client's pace. RocketMQ's own proxy does not serve these, and no
official SDK asks for them yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from ....aio import Lake
from ....consumers.dead_letters.group_filter import GroupFilter
from ....log import MessageView, OffsetOutOfRange, Position, Reader, views
from ....log.filter.filters import Filter, parse_filter
from ....log.topic.topics import Topic
from ...bounds.fair_semaphore import FairSemaphore
from ...bounds.receive_budget import ReceiveBudget
from ...topics.directory import TopicDirectory
from ..protocol import rocketmq_pb2 as pb
from ..protocol.resources import group_of, topic_of
from ..protocol.status import StatusError, ok, status
from ..server.calls import RpcCall
from .filters import filter_of
from .messages import message_of
from .receive_parameters import poll_of

_BATCH_MAX: Final = 32
_LOOK_S: Final = 1.0
"""The least time of a pull's search, as messages are read from the store."""


class OffsetService:
    """Answers the RPCs about offsets."""

    def __init__(self, lake: Lake, names: TopicDirectory, budget: ReceiveBudget, store_host: str) -> None:
        self._lake = lake
        self._names = names
        self._budget = budget
        self._store_host = store_host
        self._turns = FairSemaphore()

    async def pull_message(self, request: pb.PullMessageRequest, call: RpcCall) -> AsyncIterator[pb.PullMessageResponse]:
        """The messages of a queue from an offset on, and the next offset. Nothing is settled."""
        await self._check_group(group_of(request.group))
        topic = await self._names.topic(topic_of(request.message_queue.topic))
        keep = GroupFilter(group_of(request.group), parse_filter(filter_of(request.filter_expression)))
        most = min(request.batch_size, _BATCH_MAX)
        if most <= 0:
            raise StatusError(pb.BAD_REQUEST, f"the batch size must be positive, but is {request.batch_size}")
        within_s = max(_LOOK_S, poll_of(request, call.remaining_s).total_seconds())
        with self._budget.hold_poll(call):
            found, following = await self._found(topic, request.message_queue.id, request.offset, most, keep, within_s, call.owner)
        with self._budget.hold_messages(call, found):
            yield pb.PullMessageResponse(status=ok() if found else status(pb.MESSAGE_NOT_FOUND, "no new message"))
            for view in found:
                message = message_of(view, request.message_queue.topic, topic.settings.message_type, store_host=self._store_host)
                yield pb.PullMessageResponse(message=message)
            yield pb.PullMessageResponse(next_offset=following)

    async def _found(
        self, topic: Topic, queue: int, start: int, most: int, keep: Filter, within_s: float, owner: str
    ) -> tuple[list[MessageView], int]:
        """The same, once there are messages in time. Nothing is read ahead, and few callers read at once, as more is read than given."""
        reader, name = Reader(topic), topic.paths.topic
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    while True:
                        entry = topic.tail.state.entry
                        async with (
                            self._turns.of(owner),
                            aclosing(reader.read(queue=queue, start=start, end=start + most)) as source,
                        ):
                            async for rows in source:
                                following = rows.column("offset")[rows.num_rows - 1].as_py() + 1
                                return list(views(name, keep.apply(rows, topic.tail.state.schema))), following
                        await topic.tail.wait_past(entry)
        except OffsetOutOfRange as error:
            raise StatusError(pb.ILLEGAL_OFFSET, str(error)) from error
        finally:
            await reader.close()
        return [], start

    async def query_offset(self, request: pb.QueryOffsetRequest, call: RpcCall) -> pb.QueryOffsetResponse:
        """The beginning or end of a queue, or the first message stored at or after a time."""
        topic = await self._names.topic(topic_of(request.message_queue.topic))
        position: Position = "earliest"
        if request.query_offset_policy == pb.END:
            position = "latest"
        elif request.query_offset_policy == pb.TIMESTAMP:
            position = _time_of(request.timestamp)
        found = await Reader(topic).resolve(position, queues=[request.message_queue.id])
        return pb.QueryOffsetResponse(status=ok(), offset=found[request.message_queue.id])

    async def get_offset(self, request: pb.GetOffsetRequest, call: RpcCall) -> pb.GetOffsetResponse:
        """The offset below which the group has settled all."""
        group, topic, queue = group_of(request.group), topic_of(request.message_queue.topic), request.message_queue.id
        await self._names.topic(topic)
        await self._check_group(group)
        described = await self._lake.describe_group(group)
        standing = next((one for one in described.queues if (one.topic, one.queue) == (topic, queue)), None)
        if standing is None:
            raise StatusError(pb.OFFSET_NOT_FOUND, f"consumer group {group} has no offset in queue {queue} of topic {topic}")
        return pb.GetOffsetResponse(status=ok(), offset=standing.committed_offset)

    async def update_offset(self, request: pb.UpdateOffsetRequest, call: RpcCall) -> pb.UpdateOffsetResponse:
        """Set a group's offset, whichever process consumes the queue."""
        group, topic, queue = group_of(request.group), topic_of(request.message_queue.topic), request.message_queue.id
        await self._names.topic(topic)
        await self._check_group(group)
        try:
            await self._lake.reset_offsets(group, topic, request.offset, queues=[queue])
        except OffsetOutOfRange as error:
            raise StatusError(pb.ILLEGAL_OFFSET, str(error)) from error
        return pb.UpdateOffsetResponse(status=ok())

    async def _check_group(self, group: str) -> None:
        if await self._names.group(group) is None:
            raise StatusError(pb.CONSUMER_GROUP_NOT_FOUND, f"The consumer group {group} does not exist. Create it first.")


def _time_of(stated: Timestamp) -> datetime:
    """Raises `StatusError` outside of the years 1 to 9999."""
    try:
        return stated.ToDatetime(UTC)
    except (OverflowError, ValueError):
        raise StatusError(pb.BAD_REQUEST, f"the timestamp of {stated.seconds} s is none of the years 1 to 9999") from None
