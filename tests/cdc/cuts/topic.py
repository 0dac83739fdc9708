"""A topic as plain as its promises, for the world of cuts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.consumers.ranges.offsets import TopicSnapshot

TOPIC, QUEUES, LIFE = "changes", 3, 1


class Died(Exception):
    """A capture, at some moment."""


class Topic:
    """Entries, and what a look at them shows: the ends of queues, and the last sequence of each capture, of one and the same moment."""

    def __init__(self) -> None:
        self.queues: dict[int, list[dict[str, Any]]] = {queue: [] for queue in range(QUEUES)}
        self.named: dict[str, int] = {}
        self.entry = 0

    def append(self, producer: str, rows: Sequence[tuple[str, bytes]], last: int) -> None:
        for group, body in rows:
            value = json.loads(body)["value"]
            self.queues[sum(group.encode()) % QUEUES].append(value.get("payload", value))
        self.named[producer] = last
        self.entry += 1

    def look(self) -> TopicSnapshot:
        kept = {queue: (0, len(events)) for queue, events in self.queues.items()}
        return TopicSnapshot(TOPIC, LIFE, kept, self.entry, dict(self.named))
