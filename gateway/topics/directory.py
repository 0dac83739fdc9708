"""The topics and consumer groups that clients name."""

from __future__ import annotations

from contextlib import suppress

from ...aio import Lake
from ...coordinator import GroupSettings
from ...log import TopicExists, TopicNotFound, TopicSettings
from ...log.topic.topics import Topic
from ..server.options import GatewayOptions


class TopicDirectory:
    """Topics and groups, some made on demand."""

    def __init__(self, lake: Lake, options: GatewayOptions, *, new_topics: TopicSettings | None = None) -> None:
        """``new_topics``: the settings of topics that are made; by default those of every topic."""
        self._lake = lake
        self._options = options
        self._new_topics = new_topics or TopicSettings()

    async def topic(self, name: str) -> Topic:
        """Raises `TopicNotFound`, unless unknown topics are made."""
        try:
            return await self.known_topic(name)
        except TopicNotFound:
            if not self._options.create_topics:
                raise
        with suppress(TopicExists):  # another client was first
            await self._lake.create_topic(name, self._new_topics)
        return await self.known_topic(name)

    async def known_topic(self, name: str) -> Topic:
        """Raises `TopicNotFound`."""
        return await self._lake.topic(name)

    async def group(self, name: str) -> GroupSettings | None:
        """None: there is no group, and none is made."""
        record = await self._lake.coordination.groups.read(name)
        if record is not None:
            return record.settings
        if self._options.create_groups is None:
            return None
        return (await self._lake.coordination.groups.ensure(name, {"delivery_order": self._options.create_groups})).settings
