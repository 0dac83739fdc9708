"""How a topic gets more queues while it is used."""

from __future__ import annotations

from ..errors import InvalidArgument, LimitExceeded
from ..format.growth import may_grow
from ..format.header import Grown
from ..limits import QUEUES_MAX, is_positive
from ..paths import DLQ_PREFIX
from .records import not_found
from .topics import Topic


async def grow_topic(topic: Topic, queues: int) -> None:
    """Give a topic that is open for writing this many queues, unless it has them. Returns once the growth is durable.

    Of two growths at once the later is judged again. Raises what `check_growth` raises.
    """
    while topic.tail.state.queues != queues:
        await topic.act(Grown(topic.tail.state.generation, queues))
        await check_growth(topic, queues)


async def check_growth(topic: Topic, queues: object) -> None:
    """Raise `InvalidArgument` or `LimitExceeded` for a number of queues that the topic neither has nor can grow to, and `TopicNotFound`."""
    await topic.tail.catch_up()
    if not topic.is_current:
        raise not_found(topic.paths.topic)
    check_queues(topic.paths.topic, topic.tail.state.queues, queues)


def check_queues(name: str, present: int, queues: object) -> None:
    """`check_growth` of a topic with ``present`` queues."""
    if not is_positive(queues) or not isinstance(queues, int):
        raise InvalidArgument("queues must be a positive whole number", operation="alter_topic", object=name, observed=repr(queues))
    if queues > QUEUES_MAX:
        raise LimitExceeded(
            "too many queues", operation="alter_topic", object=name, expected=f"at most {QUEUES_MAX}", observed=queues
        )
    if name.startswith(DLQ_PREFIX) and queues != present:
        raise InvalidArgument("a dead-letter queue has one queue", operation="alter_topic", object=name, observed=queues)
    if queues != present and not may_grow(queues, present, QUEUES_MAX):
        raise InvalidArgument(
            "a topic grows to a multiple of its queues, so that each message group has one former queue",
            operation="alter_topic",
            object=name,
            expected=_told(growths_near(present, queues), present),
            observed=queues,
            hint="queues are never taken away; for another number create another topic",
        )


def growths_near(present: int, wanted: int) -> list[int]:
    """The numbers of queues nearest to ``wanted`` that a topic of ``present`` queues can grow to."""
    below = max(2, wanted // present)
    return [times * present for times in (below, below + 1) if times * present <= QUEUES_MAX]


def _told(possible: list[int], present: int) -> str:
    if not possible:
        return f"no more than its {present}, as it can have {QUEUES_MAX} at most"
    return f"{' or '.join(map(str, possible))}, as it has {present}"
