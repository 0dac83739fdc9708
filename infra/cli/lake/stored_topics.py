"""Topics as objects in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ....log import DataDamaged, NewerFormatError, PenstockError, TopicNotFound, TopicRecord
from ....log.paths import TOPICS, TopicPaths, topic_name
from ....log.runtime.portal import Portal
from ....log.stores import ObjectStore
from ....log.topic.records import read_record
from ...terminal.session import CommandSession

if TYPE_CHECKING:
    from ....aio import Lake

T = TypeVar("T")


def run_async(session: CommandSession, work: Callable[[Lake], Awaitable[T]], *, read_only: bool = False) -> T:
    """Run ``work`` with the lake on an event loop of its own. Ctrl-C and SIGTERM cancel it, and are raised at its end."""

    async def call() -> T:
        async with session.open_async(read_only=read_only) as lake:
            return await work(lake)

    return _run(call)


def run_on_store(session: CommandSession, work: Callable[[ObjectStore], Awaitable[T]]) -> T:
    """Run ``work`` as `run_async` does, with the lake's store alone."""

    async def call() -> T:
        store = session.open_store()
        try:
            return await work(store)
        finally:
            await store.close()

    return _run(call)


def _run(call: Callable[[], Awaitable[T]]) -> T:
    portal = Portal()
    try:
        return portal.run(call)
    finally:
        portal.stop()


@dataclass(frozen=True, slots=True)
class LakeContent:
    """The topics' folder of a lake."""

    records: dict[str, TopicRecord]
    unreadable: dict[str, PenstockError]
    """Unreadable topics and foreign folders, with reasons."""


async def stored_topics(store: ObjectStore, names: Sequence[str] = (), *, deleted: bool = False) -> LakeContent:
    """The named topics, or all; with ``deleted`` also deleted ones. Raises `TopicNotFound`. An unreadable topic does not keep the others from being
    maintained.
    """
    found = LakeContent({}, {})
    for name in names or await store.list_folders(TOPICS):
        try:
            topic = name if names else topic_name(name)
            record = await read_record(store, TopicPaths.of(topic))
        except (DataDamaged, NewerFormatError) as error:
            found.unreadable[name] = error
            continue
        if record is not None and (deleted or not record[0].deleted):
            found.records[topic] = record[0]
        elif names:
            raise _not_found(name)
    return found


async def stored_topic(store: ObjectStore, name: str) -> TopicRecord:
    """Raises `TopicNotFound`, or the reason why the settings are unreadable."""
    found = await read_record(store, TopicPaths.of(name))
    if found is None or found[0].deleted:
        raise _not_found(name)
    return found[0]


def _not_found(name: str) -> TopicNotFound:
    return TopicNotFound("there is no such topic", object=name, hint="`penstock topic list` names those that are there")
