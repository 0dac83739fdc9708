"""The topics and consumer groups that clients name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from weakref import WeakValueDictionary

from ...aio import Lake
from ...coordinator import GroupSettings
from ...log import TopicExists, TopicNotFound, TopicSettings
from ...log.topic.records import read_record
from ...log.topic.settings import TopicRecord
from ...log.topic.topics import Topic
from ..server.options import GatewayOptions


class TopicDirectory:
    """Topics and groups, some made on demand."""

    def __init__(self, lake: Lake, options: GatewayOptions, *, new_topics: TopicSettings | None = None) -> None:
        """``new_topics``: the settings of topics that are made; by default those of every topic."""
        self._lake = lake
        self._options = options
        self._new_topics = new_topics or TopicSettings()
        self._open: WeakValueDictionary[str, Topic] = WeakValueDictionary()

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
        topic = self._open[name] = await self._lake.topic(name)
        return topic

    async def renew(self, topic: Topic) -> None:
        """Go by the topic's settings as they are now: another gateway may have altered them."""
        found = await read_record(self._lake.store, topic.paths)
        if found is not None:
            topic.note_altered(found[0])

    def note(self, records: Mapping[str, TopicRecord]) -> None:
        """The same for all topics, of which the records were read just now."""
        for name, topic in list(self._open.items()):
            if name in records:
                topic.note_altered(records[name])

    async def group(self, name: str) -> GroupSettings | None:
        """None: there is no group, and none is made."""
        record = await self._lake.coordination.groups.read(name)
        if record is not None:
            return record.settings
        if self._options.create_groups is None:
            return None
        return (await self._lake.coordination.groups.ensure(name, {"delivery_order": self._options.create_groups})).settings
