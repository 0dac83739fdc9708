"""A member of a consumer group, by librdkafka, as a process: it writes down what it is given, and then lets it be committed.

Its only argument is a `ConsumingJob` in JSON. It leaves the group at SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from tests.gateway.kafka.chaos.facts import ASSIGNED
from tests.gateway.kafka.chaos.journal import Journal

_BATCH: Final = 500
_POLL_S: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class ConsumingJob:
    """What a member does."""

    endpoints: str
    group: str
    topics: Sequence[str]
    journal: str


class Consuming:
    """One member at work."""

    def __init__(self, job: ConsumingJob) -> None:
        self._journal = Journal(job.journal)
        self._given: list[Message] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": job.endpoints,
                "group.id": job.group,
                "auto.offset.reset": "earliest",
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 1_000,
                "reconnect.backoff.max.ms": 1_000,
            }
        )
        topics = list(job.topics)
        self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            record = self._consumer.poll(_POLL_S if not self._given else 0)
            if record is not None and (error := record.error()) is not None:
                _pass_over(error)
            elif record is not None:
                self._given.append(record)
            if record is None or len(self._given) == _BATCH:
                self._handle()
        self._handle()
        self._consumer.close()

    def _assigned(self, *_: object) -> None:
        self._handle()
        self._journal.write([f"{ASSIGNED} {time.time():.6f}"])

    def _revoked(self, *_: object) -> None:
        self._handle()

    def _lost(self, *_: object) -> None:
        """Others have the partitions already: nothing of them can be committed."""
        self._write()

    def _handle(self) -> None:
        """Write down what was given, and let it be committed."""
        for one in self._write():
            self._consumer.store_offsets(one)

    def _write(self) -> list[Message]:
        written, self._given = self._given, []
        self._journal.write(_line(one) for one in written)
        return written


def _pass_over(error: KafkaError) -> None:
    """Go on after what the client mends by itself, such as a topic about which a gateway without its store can say nothing."""
    if error.fatal():
        raise KafkaException(error)
    print(error, file=sys.stderr)


def _line(record: Any) -> str:
    return f"{time.time():.6f} {record.topic()}/{record.partition()} {record.offset()} {record.value().decode()}"


if __name__ == "__main__":
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    Consuming(ConsumingJob(**json.loads(sys.argv[1]))).run(stopping)
