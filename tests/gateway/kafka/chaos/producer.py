"""An idempotent producer of librdkafka as a process: it sends in bursts, and writes down what it was told of each record.

Its only argument is a `SendingJob` in JSON. It ends with 0 once all is acknowledged.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from tests.gateway.kafka.chaos.facts import UNKNOWN_OFFSET
from tests.gateway.kafka.chaos.journal import Journal

_BURSTS: Final = (1, 10, 100, 1_000)
_LINES: Final = 1_000
_POLL_S: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class SendingJob:
    """What a producer does."""

    name: str
    endpoints: str
    topics: Sequence[str]
    """Records go to them in turns."""
    count: int
    per_second: float
    """Records, on average."""
    keys: int
    journal: str
    seed: int


class Sending:
    """One producer at work."""

    def __init__(self, job: SendingJob) -> None:
        self._job = job
        self._journal = Journal(job.journal)
        self._lines: list[str] = []
        self._told = 0
        self._producer = Producer(
            {
                "bootstrap.servers": job.endpoints,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,  # it tries for ever
                "partitioner": "murmur2_random",
                "reconnect.backoff.max.ms": 1_000,
            }
        )

    def run(self) -> None:
        job, chance, number, start_s = self._job, random.Random(self._job.seed), 0, time.monotonic()
        while number < job.count:
            limit = min(job.count, number + chance.choice(_BURSTS))
            while number < limit:
                number += self._sent(number)
            while (left_s := start_s + number / job.per_second - time.monotonic()) > 0:
                self._producer.poll(min(left_s, _POLL_S))
                self._write()
        while self._told < job.count:
            self._producer.poll(_POLL_S)
            self._write()

    def _sent(self, number: int) -> bool:
        job = self._job
        topic, key, value = job.topics[number % len(job.topics)], f"{job.name}-{number % job.keys}", f"{job.name}:{number}"
        try:
            self._producer.produce(topic, value.encode(), key.encode(), on_delivery=self._on_delivery)
        except BufferError:
            self._producer.poll(_POLL_S)
            self._write()
            return False
        return True

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"{message.value()!r} was refused for good: {error}")
        value: Any = message.value()
        offset = UNKNOWN_OFFSET if message.offset() is None else message.offset()
        self._lines.append(f"{value.decode().partition(':')[2]} {message.topic()}/{message.partition()} {offset}")
        self._told += 1
        if len(self._lines) == _LINES:
            self._write()

    def _write(self) -> None:
        self._journal.write(self._lines)
        self._lines.clear()


if __name__ == "__main__":
    Sending(SendingJob(**json.loads(sys.argv[1]))).run()
