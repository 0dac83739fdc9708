"""The doctor's look at message groups: whether the newest messages lie in the queues that their topics' routing says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import aclosing

import pyarrow.compute as pc

from ....log import LogLake, PenstockError, Routing, TopicSettings, queue_of
from .doctor import DoctorCheck, Found

_NAME = "routing"
_TOPICS_MAX = 100
_SAMPLE_MESSAGES = 1000
_FIX = (
    "Let all senders of the topic choose by its routing: none by queue=, and of Kafka's clients librdkafka's with "
    "partitioner=murmur2_random where it is murmur2. A routing is fixed: for another one make a topic with --routing"
)


async def check_routing(lake: LogLake, found: Found) -> None:
    """Sample the newest messages of up to 100 topics, those of another routing than the default first."""
    settings = {name: record.settings for name, record in (await lake.topics(damaged="skip")).items()}
    names = sorted(
        (name for name, one in settings.items() if one.queues > 1),
        key=lambda name: (settings[name].routing is Routing.XXHASH64, name),
    )
    topics = groups = 0
    for name in names[:_TOPICS_MAX]:
        try:
            places = await _places(lake, name)
        except PenstockError as error:
            found(DoctorCheck(f"{_NAME} of {name}", "note", f"its messages cannot be looked at: {error.message}", error.hint or ""))
            continue
        if (check := judged(name, settings[name], places)) is not None:
            found(check)
        elif places:
            topics, groups = topics + 1, groups + len(places)
    if groups:
        found(DoctorCheck(_NAME, "ok", f"{groups:,} message groups of {topics:,} topics lie in their queues"))


async def _places(lake: LogLake, topic: str) -> dict[str, set[int]]:
    """The queues of each message group among the newest messages, since the topic got more queues. Those with a binary key are left out: a door for
    other clients may have chosen by that.
    """
    places: dict[str, set[int]] = defaultdict(set)
    reader = await lake.reader(topic)
    share = -(-_SAMPLE_MESSAGES // reader.queues)
    kept = await reader.offsets()
    growths = (await lake.topic(topic)).tail.state.growths
    marks = dict(enumerate(growths[-1].marks)) if growths else {}
    newest = {queue: (min(end, max(earliest, end - share, marks.get(queue, 0))), end) for queue, (earliest, end) in kept.items()}
    async with aclosing(reader.ranges(newest, columns=["message_group", "key"])) as batches:
        async for batch in batches:
            ours = batch.filter(pc.and_(pc.is_valid(batch.column("message_group")), pc.is_null(batch.column("key"))))
            for group in ours.column("message_group").unique().to_pylist():
                places[group].add(batch.column("queue")[0].as_py())
    return places


def judged(topic: str, settings: TopicSettings, places: Mapping[str, set[int]]) -> DoctorCheck | None:
    """The finding on a topic; None: every message group is where it belongs. A problem is a message group in several queues, which has no order."""

    def misplaced(routing: Routing) -> list[str]:
        return sorted(group for group, queues in places.items() if queues != {queue_of(group, settings.queues, routing)})

    elsewhere = misplaced(settings.routing)
    if not elsewhere:
        return None
    scattered = [group for group in elsewhere if len(places[group]) > 1]
    shown = (scattered or elsewhere)[0]
    queues = ", ".join(map(str, sorted(places[shown])))
    home = queue_of(shown, settings.queues, settings.routing)
    fitting = next((other for other in Routing if not misplaced(other)), None)
    observed = (
        f"{len(elsewhere):,} of {len(places):,} message groups of the newest messages do not lie where {settings.routing} says: "
        f"{shown!r} in queue {queues}, not {home}{'' if fitting is None else f'; {fitting} says so'}"
    )
    return DoctorCheck(f"{_NAME} of {topic}", "problem" if scattered else "note", observed, _FIX)
