"""The records of a lake's topics, read without Arrow."""

from __future__ import annotations

from typing import Literal

from ..errors import DataDamaged, ForeignObject, NewerFormatError, TopicNotFound
from ..paths import TOPICS, TopicPaths, topic_name
from ..stores.protocol import ObjectMissing, ObjectStore, Version
from .settings import TopicRecord, decode_record


async def read_record(store: ObjectStore, paths: TopicPaths) -> tuple[TopicRecord, Version] | None:
    try:
        stored = await store.get(paths.settings)
    except ObjectMissing:
        return None
    return decode_record(stored.data, where=paths.settings), stored.version


async def topic_names(store: ObjectStore) -> list[str]:
    """Names in order, deleted topics' too."""
    found = []
    for folder in await store.list_folders(TOPICS):
        try:
            found.append(topic_name(folder))
        except ForeignObject:
            continue
    return sorted(found)


async def list_topics(store: ObjectStore, *, damaged: Literal["raise", "skip"] = "raise") -> dict[str, TopicRecord]:
    found: dict[str, TopicRecord] = {}
    for name in await topic_names(store):
        try:
            record = await read_record(store, TopicPaths.of(name))
        except (DataDamaged, NewerFormatError) as error:
            if damaged == "skip":
                continue
            error.hint = "topics(damaged='skip') names the others"
            raise
        if record is not None and not record[0].deleted:
            found[name] = record[0]
    return found


def not_found(name: str) -> TopicNotFound:
    return TopicNotFound("there is no such topic", object=name, hint="create it with lake.create_topic or `penstock topic create`")
