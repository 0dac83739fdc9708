"""Applications in users' tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from penstock.app import App
from penstock.lake import Lake
from penstock.log import Duration
from penstock.log.limits import WAIT_MAX, checked_duration

from .lakes import memory_lake

_PATIENCE = timedelta(seconds=10)
_LOOK_S = 0.01


@contextmanager
def app(app: App, *, lake: Lake | None = None, timeout: Duration = _PATIENCE) -> Iterator[Lake]:
    """Run the listeners of an app inside the block, on a fresh lake in memory or on ``lake``, which stays open.

    A topic that a listener names and that is not there is made: with the schema of the rows that it takes, else of type MIXED. The end of the block
    waits until all messages are handled, as `until_handled` does, but for an error that leaves it.
    """
    with ExitStack() as stack:
        opened = lake if lake is not None else stack.enter_context(memory_lake())
        _make_topics(opened, app)
        app.check(opened)
        with app.consume(opened):
            yield opened
            until_handled(opened, timeout)


def until_handled(lake: Lake, timeout: Duration = _PATIENCE) -> None:
    """Wait until each consumer group has handled all messages of its topics: done, or given up and their dead letters stored.

    A parked message group counts as handled, one that waits for its retry does not. Raises `TimeoutError`, which names what is left.
    """
    deadline_s = time.monotonic() + checked_duration("timeout", timeout, most=WAIT_MAX, operation="until_handled").total_seconds()
    while left := _left(lake):
        if time.monotonic() > deadline_s:
            raise TimeoutError("; ".join(left))
        time.sleep(_LOOK_S)


def _left(lake: Lake) -> list[str]:
    found = []
    for group in lake.groups():
        counts: dict[str, int] = {}
        for one in lake.describe_group(group).queues:
            counts[one.topic] = counts.get(one.topic, 0) + one.lag - one.parked + one.dead_letters
        found += [f"{group} has {count} messages of {topic} left" for topic, count in counts.items() if count]
    return found


def _make_topics(lake: Lake, app: App) -> None:
    there = lake.topics()
    for one in app.listeners:
        for topic in one.topics:
            if topic not in there:
                schema = None if one.rows is None else one.rows.cls
                lake.create_topic(topic, message_type="NORMAL" if schema else "MIXED", schema=schema)
                there = lake.topics()
