"""What a gateway adds to the library's own latency on a store as slow as S3, cells included: one caller, one message a call."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from penstock import Message, aio
from penstock.aio import TopicSettings
from penstock.gateway.topics.producer_pool import PRODUCER_OPTIONS
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.gateway.clients import client, receive_request, send_requests
from tests.benchmarks.gateway.serving import folder_of_slow_store, served, store_of
from tests.benchmarks.rows import BODY

_TOPIC = "bench-normal"
_TARGET_MS = 10.0
_ROUND = 10
"""Calls of one system before it is the other one's turn, so that a busy neighbour hits both alike."""


_STEPS = ("send", "receive and ack")
"""The calls that are timed, of one message each."""
_System = dict[str, Callable[[], Awaitable[object]]]
"""What does each step."""


def measure_latency(options: Options) -> Iterator[Figure]:
    calls = options.scaled(100, 10)
    runs = [asyncio.run(_run(calls)) for _ in range(options.repeats)]
    for step in _STEPS:
        ours = [statistics.median(run[step, "gateway"]) for run in runs]
        own = [statistics.median(run[step, "library"]) for run in runs]
        yield Figure(name=f"{step} on S3, library, p50", unit="ms", values=own)
        yield Figure(name=f"{step} on S3, gateway, p50", unit="ms", values=ours)
        yield Figure(
            name=f"{step} on S3: what the gateway adds, p50",
            unit="ms",
            values=[one - other for one, other in zip(ours, own, strict=True)],
            target=_TARGET_MS,
            note=f"{calls} calls of each in turns, one caller, real clock",
        )


async def _run(calls: int) -> dict[tuple[str, str], list[float]]:
    """The milliseconds of every call, by what was called and who served it."""
    took: dict[tuple[str, str], list[float]] = {}
    with folder_of_slow_store() as folder:
        async with _gateway(folder / "gateway", calls) as gateway, _library(folder / "library") as library:
            systems = {"gateway": gateway, "library": library}
            for step in _STEPS:
                for system in systems.values():
                    await system[step]()  # opens what is opened once
                for _ in range(0, calls, _ROUND):
                    for name, system in systems.items():
                        took.setdefault((step, name), []).extend([await _timed(system[step]) for _ in range(_ROUND)])
    return took


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    start_s = time.perf_counter()
    await call()
    return 1000 * (time.perf_counter() - start_s)


async def _create(root: Path, group: str) -> None:
    async with aio.connect(root, coordination="store", maintenance=False) as lake:
        await lake.create_topic(_TOPIC, TopicSettings(queues=1))
        await lake.create_group(group, delivery_order="CONCURRENT")


@asynccontextmanager
async def _gateway(root: Path, calls: int) -> AsyncIterator[_System]:
    group = f"bench-{uuid.uuid4().hex[:12]}"
    await _create(root, group)
    with served(root, "--s3") as server:
        async with client(server.endpoints) as connection:
            requests = iter(send_requests(_TOPIC, 2 * calls + 2 * _ROUND, together=1, fifo=False))
            wanted = receive_request(_TOPIC, group, most=1)

            async def receive() -> None:
                handles = await connection.receive(wanted)
                assert len(handles) == 1, "all were sent before"
                await connection.ack(_TOPIC, group, handles)

            yield dict(zip(_STEPS, (lambda: connection.send(next(requests)), receive), strict=True))


@asynccontextmanager
async def _library(root: Path) -> AsyncIterator[_System]:
    group = f"bench-{uuid.uuid4().hex[:12]}"
    await _create(root, group)
    async with aio.connect(store=store_of(root, s3=True), coordination="store", maintenance=False) as lake:
        producer = await lake.producer(_TOPIC, options=PRODUCER_OPTIONS)
        async with lake.simple_consumer(_TOPIC, group=group, delivery_order="CONCURRENT") as consumer:

            async def send() -> None:
                await producer.send(Message(BODY))

            async def receive() -> None:
                messages = await consumer.receive(1, await_duration=timedelta(seconds=5))
                assert len(messages) == 1, "all were sent before"
                await consumer.ack(*messages)

            yield dict(zip(_STEPS, (send, receive), strict=True))
