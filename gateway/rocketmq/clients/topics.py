"""The topics and consumer groups that clients name."""

from __future__ import annotations

from contextlib import suppress

from ....aio import Lake
from ....coordinator import GroupSettings
from ....log import TopicExists, TopicNotFound, TopicSettings
from ....log.topic.topics import Topic
from ...server.options import GatewayOptions
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import StatusError


class TopicDirectory:
    """Topics and groups, some made on demand."""

    def __init__(self, lake: Lake, options: GatewayOptions) -> None:
        self._lake = lake
        self._options = options
        self._topics: dict[str, Topic] = {}

    async def topic(self, name: str) -> Topic:
        """Raises `StatusError`, as RocketMQ does, for an unknown topic."""
        known = self._topics.get(name)
        if known is not None and known.is_current:
            return known
        try:
            return self._noted(name, await self._lake.topic(name))
        except TopicNotFound:
            if not self._options.create_topics:
                raise StatusError(
                    pb.TOPIC_NOT_FOUND, f"No topic route info for the topic: {name}. The lake has no such topic; create it first."
                ) from None
        with suppress(TopicExists):  # another client was first
            await self._lake.create_topic(name, TopicSettings())
        return self._noted(name, await self._lake.topic(name))

    def _noted(self, name: str, topic: Topic) -> Topic:
        self._topics[name] = topic
        return topic

    async def group(self, name: str) -> GroupSettings | None:
        """None: there is no group, and none is made."""
        record = await self._lake.coordination.groups.read(name)
        if record is not None:
            return record.settings
        if self._options.create_groups is None:
            return None
        return (await self._lake.coordination.groups.ensure(name, {"delivery_order": self._options.create_groups})).settings
