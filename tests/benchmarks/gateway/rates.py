"""What a message costs a gateway: sends, and receives with their acknowledgements, on local files.

Rates a core are 1 over the processor time of a message in the gateway's process: the client has a process of its own, and takes more of a
small machine than the gateway does. Beside each stand the library that does the same in one process, and a gRPC server that only echoes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from penstock import Message, aio
from penstock.aio import TopicSettings
from penstock.gateway.topics.producer_pool import PRODUCER_OPTIONS
from penstock.log import MessageType
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.gateway.clients import Client, client, receive_request, send_requests, side_by_side
from tests.benchmarks.gateway.idle import measure_idle
from tests.benchmarks.gateway.latency import measure_latency
from tests.benchmarks.gateway.serving import Served, served
from tests.benchmarks.rows import BODY, GROUPS

QUEUES = 8
_TARGET = 2_000.0
_NOTE = "the gateway's HTTP/2 alone, requests of one message of 100 B sent back"


@dataclass(frozen=True, kw_only=True)
class Sends:
    """How messages are sent."""

    fifo: bool
    callers: int
    """Calls side by side."""
    together: int = 1
    """Messages in a call."""

    @property
    def name(self) -> str:
        return f"send {_order(self.fifo)}, {self.callers} side by side, {self.together} a call"


@dataclass(frozen=True, kw_only=True)
class Receives:
    """How messages are received and acknowledged."""

    fifo: bool
    callers: int
    most: int
    """Messages in a receive."""
    entries: int
    """Acknowledgements in a call; those of a receive are called for side by side."""

    @property
    def name(self) -> str:
        return f"receive and ack {_order(self.fifo)}, {self.callers} side by side, {self.most} a receive, {self.entries} an ack"


@dataclass(frozen=True)
class Run:
    """One measurement."""

    wall_s: float
    cpu_s: float
    messages: int

    @property
    def cpu_us(self) -> float:
        return 1e6 * self.cpu_s / self.messages

    @property
    def a_core(self) -> float:
        return self.messages / max(self.cpu_s, 1e-9)

    @property
    def rate(self) -> float:
        return self.messages / self.wall_s


def _order(fifo: bool) -> str:
    return "FIFO" if fifo else "NORMAL"


def _delivery(fifo: bool) -> Literal["ORDERLY", "CONCURRENT"]:
    return "ORDERLY" if fifo else "CONCURRENT"


def measure(options: Options) -> Iterator[Figure]:
    sends = [
        Sends(fifo=fifo, callers=callers, together=together)
        for fifo in (False, True)
        for callers, together in ((1, 1), (16, 1), (32, 1), (256, 1), (8, 32))
    ]
    receives = [
        Receives(fifo=fifo, callers=callers, most=most, entries=entries)
        for fifo in (False, True)
        for callers, most, entries in ((16, 1, 1), (8, 32, 1), (8, 32, 32))
    ]
    if options.small:
        sends, receives = sends[1:2], receives[1:2]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root, native = Path(folder) / "gateway", Path(folder) / "native"
        with served(root, "--echo") as server:
            yield from _echoes(server, options)
        for lake in (root, native):
            asyncio.run(_create(lake))
        with served(root) as server:
            for shape in sends:
                count = options.scaled(6_000 if shape.callers > 1 else 200, 100)
                yield from _figures(shape.name, [asyncio.run(_send(server, shape, count)) for _ in range(options.repeats)])
                yield from _beside(shape.name, [asyncio.run(_send_native(native, shape, count)) for _ in range(options.repeats)])
            for fifo in (False, True):
                filling = Sends(fifo=fifo, callers=8, together=32)
                asyncio.run(_send(server, filling, options.scaled(20_000, 500)))
                asyncio.run(_send_native(native, filling, options.scaled(20_000, 500)))
            for way in receives:
                count = options.scaled(5_000 if way.most > 1 else 1_000, 200)
                yield from _figures(way.name, [asyncio.run(_receive(root, server, way, count)) for _ in range(options.repeats)])
                runs = [asyncio.run(_receive_native(native, way, count)) for _ in range(options.repeats)]
                yield from _beside(way.name, runs)
    yield from measure_latency(options)
    yield from measure_idle(options)


def _figures(name: str, runs: list[Run]) -> Iterator[Figure]:
    rates = ", ".join(f"{run.rate:,.0f}" for run in sorted(runs, key=lambda run: run.rate))
    yield Figure(
        name=name,
        unit="messages/s and core of the gateway",
        better="higher",
        values=[run.a_core for run in runs],
        target=_TARGET,
        note=f"100 B, {QUEUES} queues; by the clock {rates}/s",
    )
    yield Figure(name=f"{name}: processor time", unit="µs/message", values=[run.cpu_us for run in runs])


def _beside(name: str, runs: list[Run]) -> Iterator[Figure]:
    yield Figure(name=f"{name}: the library in one process", unit="µs/message", values=[run.cpu_us for run in runs])


def topic_of(fifo: bool) -> str:
    return "bench-fifo" if fifo else "bench-normal"


async def _create(root: Path) -> None:
    async with aio.connect(root, maintenance=False) as lake:
        for fifo in (False, True):
            await lake.create_topic(topic_of(fifo), TopicSettings(message_type=MessageType(_order(fifo)), queues=QUEUES))


async def _create_group(root: Path, group: str, shape: Receives) -> None:
    async with aio.connect(root, maintenance=False) as lake:
        await lake.create_group(group, delivery_order=_delivery(shape.fifo))


# --- The gateway ------------------------------------------------------------------------------------------------------------------


async def _timed(server: Served, messages: int, work: Callable[[], Coroutine[Any, Any, None]]) -> Run:
    before, start_s = server.used(), time.perf_counter()
    await work()
    wall_s = time.perf_counter() - start_s
    return Run(wall_s, server.used().since(before).cpu_s, messages)


async def _send(server: Served, shape: Sends, count: int) -> Run:
    topic = topic_of(shape.fifo)
    async with client(server.endpoints) as connection:
        warm, requests = (send_requests(topic, n, together=shape.together, fifo=shape.fifo) for n in (64, count))
        for request in warm:
            await connection.send(request)
        left = iter(requests)

        async def work() -> None:
            for request in left:
                await connection.send(request)

        return await _timed(server, count, lambda: side_by_side(shape.callers, work))


async def _receive(root: Path, server: Served, shape: Receives, count: int) -> Run:
    """Receive and acknowledge so many, in a group of its own."""
    topic, group = topic_of(shape.fifo), f"bench-{uuid.uuid4().hex[:12]}"
    await _create_group(root, group, shape)
    async with client(server.endpoints) as connection:
        request, left = receive_request(topic, group, most=shape.most), count
        first = await connection.receive(receive_request(topic, group, most=1))  # the queues are this gateway's now
        await connection.ack(topic, group, first)

        async def work() -> None:
            nonlocal left
            while left > 0:
                left -= shape.most
                if not (handles := await connection.receive(request)):
                    raise RuntimeError("there were too few messages")
                left += shape.most - len(handles)
                await _acked(connection, topic, group, handles, shape.entries)

        return await _timed(server, count, lambda: side_by_side(shape.callers, work))


async def _acked(connection: Client, topic: str, group: str, handles: list[str], entries: int) -> None:
    parts = [handles[start : start + entries] for start in range(0, len(handles), entries)]
    await asyncio.gather(*(connection.ack(topic, group, part) for part in parts))


# --- The library ------------------------------------------------------------------------------------------------------------------


async def _send_native(root: Path, shape: Sends, count: int) -> Run:
    """The same by a producer with the gateway's options: a task for each caller."""
    left = iter(range(0, count, shape.together))
    async with aio.connect(root, maintenance=False) as lake:
        producer = await lake.producer(topic_of(shape.fifo), options=PRODUCER_OPTIONS)

        def send(number: int) -> Awaitable[object]:
            return producer.send(Message(BODY, GROUPS[number % len(GROUPS)] if shape.fifo else None))

        async def work() -> None:
            for start in left:
                if shape.together == 1:
                    await send(start)
                else:
                    await asyncio.gather(*(send(start + number) for number in range(shape.together)))

        await send(0)
        return await _timed_here(count, lambda: side_by_side(shape.callers, work))


async def _receive_native(root: Path, shape: Receives, count: int) -> Run:
    """The same by a SimpleConsumer: a task for each caller."""
    left = count
    async with aio.connect(root, maintenance=False) as lake:
        group = f"bench-{uuid.uuid4().hex[:12]}"
        simple = lake.simple_consumer(topic_of(shape.fifo), group=group, delivery_order=_delivery(shape.fifo))
        async with simple as consumer:
            await consumer.ack(*await consumer.receive(1, await_duration=timedelta(seconds=5)))

            async def work() -> None:
                nonlocal left
                while left > 0:
                    left -= shape.most
                    if not (messages := await consumer.receive(shape.most, await_duration=timedelta(seconds=5))):
                        raise RuntimeError("there were too few messages")
                    left += shape.most - len(messages)
                    await asyncio.gather(*(consumer.ack(message) for message in messages))

            return await _timed_here(count, lambda: side_by_side(shape.callers, work))


async def _timed_here(messages: int, work: Callable[[], Coroutine[Any, Any, None]]) -> Run:
    cpu_s, start_s = time.process_time(), time.perf_counter()
    await work()
    return Run(time.perf_counter() - start_s, time.process_time() - cpu_s, messages)


# --- Bare gRPC --------------------------------------------------------------------------------------------------------------------


def _echoes(server: Served, options: Options) -> Iterator[Figure]:
    count = options.scaled(6_000, 100)
    for name, call, callers, calls in (
        ("bare gRPC, one answer", Client.call, 32, count),
        ("bare gRPC, 34 frames", Client.frames, 8, count // 20),
    ):
        runs = [asyncio.run(_echo(server, call, callers, calls)) for _ in range(options.repeats)]
        yield Figure(name=name, unit="µs/call", values=[run.cpu_us for run in runs], note=_NOTE)


async def _echo(server: Served, call: Callable[[Client, bytes], Awaitable[object]], callers: int, count: int) -> Run:
    left = iter(send_requests("bench-normal", count, together=1, fifo=False))
    async with client(server.endpoints) as connection:

        async def work() -> None:
            for request in left:
                await call(connection, request)

        return await _timed(server, count, lambda: side_by_side(callers, work))
