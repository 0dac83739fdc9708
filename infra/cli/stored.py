"""Topics as objects in the store, for the commands that work below producers and readers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ...log import Lake, TopicNotFound, TopicRecord
from ...log.paths import TOPICS, TopicPaths, topic_name
from ...log.portal import Portal
from ...log.stores import ObjectStore
from ...log.topics import read_record
from .session import Session

T = TypeVar("T")


def run_async(session: Session, work: Callable[[Lake], Awaitable[T]], *, read_only: bool = False) -> T:
    """``work`` with the lake on an event loop of its own; Ctrl-C and SIGTERM cancel it, and are raised once it has ended."""
    portal = Portal()

    async def call() -> T:
        async with session.open_async(read_only=read_only) as lake:
            return await work(lake)

    try:
        return portal.run(call)
    finally:
        portal.stop()


async def records(store: ObjectStore, names: Sequence[str] = (), *, deleted: bool = False) -> dict[str, TopicRecord]:
    """The settings of these topics, or of all. With ``deleted`` also those of deleted ones.

    Raises `TopicNotFound` for a name that is not there, `ForeignObject` for a folder among the topics that is none.
    """
    found: dict[str, TopicRecord] = {}
    for name in names or [topic_name(folder) for folder in await store.list_folders(TOPICS)]:
        record = await read_record(store, TopicPaths.of(name))
        if record is not None and (deleted or not record[0].deleted):
            found[name] = record[0]
        elif names:
            raise TopicNotFound("there is no such topic", object=name, hint="`penstock topic list` names those that are there")
    return found
