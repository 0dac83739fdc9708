"""One message: its life, its state in each consumer group, and its content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....aio import Lake
from ....log.errors import InvalidArgument, TopicNotFound
from ....log.topic.records import topic_names
from ...operating.life import MessageLife, life_of
from ..faults import PagePart
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest, QueryParameter

TOPICS_MAX = 16
"""The most topics of a full search, some requests each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """The content of the page."""

    message_id: str
    topic: str | None
    topics: tuple[str, ...]
    life: PagePart[MessageLife] | None
    """None: too many topics for a search."""


async def gather(context: PageContext, request: PageRequest) -> MessagePage:
    message_id, topic = request["message_id"], request.text("topic")
    topics: tuple[str, ...] = ()
    if topic is None:
        topics = tuple(await context.using(lambda lake: topic_names(lake.store)))
        if len(topics) > TOPICS_MAX:
            return MessagePage(message_id=message_id, topic=None, topics=topics, life=None)

    async def life(lake: Lake) -> MessageLife:
        return life_of(await lake.trace(message_id, topic=topic), context.now)

    found = await context.part(life, fatal=(TopicNotFound, InvalidArgument))
    return MessagePage(message_id=message_id, topic=topic, topics=(), life=found)


def _crumbs(request: PageRequest) -> Sequence[Breadcrumb]:
    topic = request.text("topic")
    if topic is None:
        return [Breadcrumb("Topics", "topics")]
    names = {"topic": topic}
    return [Breadcrumb("Topics", "topics"), Breadcrumb(f"Topic {topic}", "topic", names), Breadcrumb("Messages", "messages", names)]


def _command(request: PageRequest) -> Sequence[str]:
    topic = request.text("topic")
    return ["trace", request["message_id"], *([] if topic is None else ["--topic", topic])]


PAGE = PageDefinition(
    name="message",
    path="/trace/{message_id:path}",
    title="Message {message_id}",
    about="The life of one message: where it is stored, how it stands in each consumer group and why, and what it holds.",
    shows=MessagePage,
    gather=gather,
    command=_command,
    parameters=(QueryParameter(name="topic", help="Look in this topic and the dead letters of its groups, not in all topics."),),
    crumbs=_crumbs,
    is_kept=False,
)
