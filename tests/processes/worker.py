"""One process of the chaos run: a producer that writes down what it sends and what became of it, or a topic's maintenance.

A producer's journal has lines ``S body`` before a message is sent, and then ``A body queue offset`` (acknowledged), ``N body`` (not
written) or ``U body`` (unknown). A body is ``who/number/group``. A named producer numbers by its sequences and goes on from
``last_sequence``, so each of its numbers must be in the log once, whatever was killed. An unnamed one begins anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import penstock
import penstock.aio
from penstock.log.format.header import Action
from penstock.log.paths import TopicPaths
from penstock.log.table.maintenance import MaintenanceOptions, TopicMaintenance

TOPIC = "orders"
BATCH_MAX = 40
_LOOK_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a process is to do, as its only argument in JSON."""

    url: str
    options: dict[str, str]
    name: str = ""
    """Of the producer; empty: unnamed."""
    journal: str = ""
    """Empty: maintain the topic."""
    seed: int = 0
    groups: int = 5
    """Message groups of each producer."""
    skew: float = 0.0
    """Of Zipf's law, by which messages are spread over groups; 0: evenly."""
    messages: int = 0
    """The producer ends after so many; 0: when it is told to."""
    per_second: float = 0.0
    """Messages, at most; 0: as many as there can be."""
    at_once: int = BATCH_MAX
    """Messages, at most, before it waits for their answers."""
    hold: str = ""
    """A file: while it is there, the producer sends nothing."""

    def group_weights(self) -> list[float]:
        """Of the groups, added up."""
        return list(accumulate(1 / (place + 1) ** self.skew for place in range(self.groups)))


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if job.journal:
        with penstock.connect(job.url, options=job.options, maintenance=False) as lake:
            produce(lake, job, stop)
    else:
        asyncio.run(maintain(job, stop))


def produce(lake: penstock.Lake, job: Job, stop: threading.Event) -> None:
    """Send until told to stop, or fenced by a newer instance of the name; a producer that failed is opened anew."""
    chance = random.Random(job.seed)
    journal = os.open(job.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while not stop.is_set():
        try:
            producer = lake.producer(
                TOPIC, name=job.name or None, linger=timedelta(milliseconds=5), delivery_timeout=timedelta(seconds=20)
            )
            send(producer, job, stop, chance, journal)
            producer.close()
            if job.messages:
                return
        except penstock.FencedError:
            return
        except (penstock.RetryError, penstock.ReopenError):
            continue


def send(producer: penstock.Producer, job: Job, stop: threading.Event, chance: random.Random, journal: int) -> None:
    """Raises what ended the producer, once its journal says so."""
    number = producer.last_sequence + 1
    weights = job.group_weights()
    while not stop.is_set() and (not job.messages or number < job.messages):
        groups = chance.choices(range(job.groups), cum_weights=weights, k=chance.randint(1, job.at_once))
        bodies = [f"{producer.id}/{number + n}/{group}" for n, group in enumerate(groups)]
        write(journal, [f"S {body}" for body in bodies])
        receipts = {}
        error: penstock.PenstockError | None = None
        lines = []
        for n, body in enumerate(bodies):
            message = penstock.Message(body.encode(), message_group=message_group_of(body), keys=[body[:30]])
            try:
                receipts[body] = producer.send(message, sequence=number + n if job.name else None)
            except penstock.PenstockError as failure:
                error = error or failure
                lines.append(f"N {body}")
        for body, receipt in receipts.items():
            try:
                place = receipt.result()
                if place.offset is not None:
                    lines.append(f"A {body} {place.queue} {place.offset}")
            except (penstock.NotWritten, penstock.ProducerFailedError, penstock.FencedError) as failure:
                error = error or failure
                lines.append(f"N {body}")
            except penstock.PenstockError as failure:
                error = error or failure
                lines.append(f"U {body}")
        write(journal, lines)
        if error is not None:
            raise error
        number += len(bodies)
        if job.per_second:
            stop.wait(len(bodies) / job.per_second)
        while job.hold and os.path.exists(job.hold) and not stop.wait(_LOOK_S):
            pass


def message_group_of(body: str) -> str:
    """Where a producer sends it."""
    who, _, rest = body.partition("/")
    return f"{who[:20]}-{rest.rpartition('/')[2]}"


def write(journal: int, lines: list[str]) -> None:
    os.write(journal, "".join(f"{line}\n" for line in lines).encode())


async def maintain(job: Job, stop: threading.Event) -> None:
    """Publish and keep up at short intervals; a step that fails is tried again."""
    async with penstock.aio.connect(job.url, options=job.options, maintenance=False) as lake:
        topic = await lake.topic(TOPIC, writable=True)

        async def append(actions: Sequence[Action]) -> None:
            await topic.act(*actions)

        options = MaintenanceOptions(
            publish_interval=timedelta(milliseconds=300),
            upkeep_interval=timedelta(seconds=1),
            compact_fan_in=3,
            checkpoint_versions=5,
        )
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        if stop.is_set():
            return
        maintenance = TopicMaintenance(lake.store, TopicPaths.of(TOPIC), topic.record, lake.runtime, append, options)
        await maintenance.run_forever(ended)


def start_argument(job: Job, python: Sequence[str] = (sys.executable,)) -> list[str]:
    values: dict[str, Any] = {field: getattr(job, field) for field in job.__dataclass_fields__}
    return [*python, "-m", "tests.processes.worker", json.dumps(values)]


def read_journal(path: Path) -> list[list[str]]:
    """The complete lines of a journal, split at blanks; a killed writer may have left half a line."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [line.split(" ") for line in whole.splitlines()]


if __name__ == "__main__":
    main()
