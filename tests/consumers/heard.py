"""Listeners that note what they hear, and short ways to fill a topic and to see what became of it; all by the public API."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import penstock
from penstock import ConsumeResult, Message, MessageView, RetryPolicy
from tests.lakes import TIMEOUT_S, send_all
from tests.waiting import wait_until

AT_ONCE = RetryPolicy(interval=timedelta(milliseconds=1))
"""Failed messages run again without delay."""
SUCCESS, FAILURE = ConsumeResult.SUCCESS, ConsumeResult.FAILURE


class Heard:
    """A listener for single messages: notes each when its handler begins, asks ``answer`` for the result, and notes its end."""

    def __init__(self, answer: Callable[[MessageView], object] = lambda _: SUCCESS) -> None:
        self._answer = answer
        self._changed = threading.Condition()
        self.begun: list[MessageView] = []
        self.done: list[MessageView] = []
        """Those that succeeded."""
        self.running: dict[object, int] = defaultdict(int)
        """Handlers now, by (queue, message group)."""
        self.most: dict[object, int] = defaultdict(int)
        """The most of them at once; by None: in all."""

    def __call__(self, message: MessageView) -> Any:
        with self._changed:
            self.begun.append(message)
            for lane in (None, (message.queue, message.message_group)):
                self.running[lane] += 1
                self.most[lane] = max(self.most[lane], self.running[lane])
            self._changed.notify_all()
        result: object = None
        try:
            result = self._answer(message)
            return result
        finally:
            with self._changed:
                for lane in (None, (message.queue, message.message_group)):
                    self.running[lane] -= 1
                if result is SUCCESS:
                    self.done.append(message)
                self._changed.notify_all()

    def until(self, condition: Callable[[Heard], bool], what: str) -> None:
        """Wait until it holds."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), TIMEOUT_S), f"{what}; heard {self.begun}"

    def until_done(self, count: int) -> None:
        self.until(lambda heard: len(heard.done) >= count, f"{count} messages done")

    def offsets(self, group: str | None = None, *, queue: int | None = None) -> list[int]:
        """Offsets in the order in which handlers began, of a message group or a queue."""
        return [
            one.offset
            for one in self.begun
            if (group is None or one.message_group == group) and (queue is None or one.queue == queue)
        ]

    def bodies(self) -> list[str]:
        """In the order in which handlers succeeded."""
        return [one.body.decode() for one in self.done]


def failing(body: bytes, result: Callable[[], object], *, attempts: int = 1) -> Callable[[MessageView], object]:
    """Answers ``result()`` for one message until it was delivered more often."""
    return lambda message: result() if message.body == body and message.delivery_attempt <= attempts else SUCCESS


def fill(lake: penstock.Lake, groups: str, *, topic: str = "orders", queues: int = 1, tags: str = "") -> None:
    """A FIFO topic with a message for each letter of ``groups``, whose body is the letter and its number: a0, b0, a1, …

    Of spaces in place of letters: a NORMAL topic with messages of no group, spread over its queues.
    """
    lake.create_topic(topic, message_type="NORMAL" if " " in groups else "FIFO", queues=queues)
    send(lake, groups, topic=topic, tags=tags)


def send(lake: penstock.Lake, groups: str, *, topic: str = "orders", tags: str = "") -> None:
    """More messages of the kind."""
    count: dict[str, int] = defaultdict(int)
    messages = []
    for at, group in enumerate(groups):
        body = f"{group.strip()}{count[group]}".encode()
        count[group] += 1
        messages.append(Message(body, message_group=group.strip() or None, tag=tags[at] if tags else None))
    send_all(lake, messages, topic)


def settled(lake: penstock.Lake, group: str = "billing") -> bool:
    """Whether the group has done with everything, dead letters included, as its cells say."""
    queues = lake.describe_group(group).queues
    return all(
        (one.lag, one.in_flight, one.waiting, one.blocked, one.interrupted, one.dead_letters) == (0, 0, 0, 0, 0, 0)
        for one in queues
    )


def until_settled(lake: penstock.Lake, group: str = "billing") -> None:
    wait_until(lambda: settled(lake, group), "everything settled")


def letters(lake: penstock.Lake, group: str = "billing") -> list[str]:
    """The bodies of the group's dead letters."""
    try:
        return [one.body.decode() for one in lake.reader(f"%DLQ%{group}").messages()]
    except penstock.TopicNotFound:  # none yet, or its topic, which is listed by then, is just being made
        return []


@contextmanager
def consuming(lake: penstock.Lake, listener: Callable[[Any], Any], **how: Any) -> Iterator[penstock.PushConsumer]:
    """A consumer of topic orders in group billing that retries at once, unless told otherwise."""
    topic = how.pop("topic", "orders")
    with lake.push_consumer(topic, listener=listener, **{"group": "billing", "retry": AT_ONCE, **how}) as consumer:
        yield consumer
