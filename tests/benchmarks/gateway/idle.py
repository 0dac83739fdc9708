"""What clients cost that only wait: requests of the store, and processor time of the gateway. Cells are objects here, so they count too."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc

from penstock import aio
from penstock.aio import TopicSettings
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.gateway.clients import METADATA, receive_request
from tests.benchmarks.gateway.serving import Served, Used, served

_TOPIC = "bench"
_HEARTBEAT_S = 10.0
_GROUPS = 10


def measure_idle(options: Options) -> Iterator[Figure]:
    clients, seconds = options.scaled(1_000, 4), options.scaled(60, 2)
    groups = [f"bench-{number}" for number in range(options.scaled(_GROUPS, 2))]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        asyncio.run(_create(Path(folder), groups))
        with served(Path(folder), "--objects") as server:
            runs = asyncio.run(_idle(server, clients, groups, seconds, 1 if options.small else 3))
    minutes = seconds / 60
    note = f"telemetry, heartbeats and long polls of 20 s, in {len(groups)} groups on one topic of 8 queues"
    verbs = {verb: round(count / minutes, 1) for verb, count in runs[-1].requests.items() if count}
    yield Figure(
        name=f"{clients:,} idle clients: requests of the store, cells included",
        unit="a minute",
        values=[sum(run.requests.values()) / minutes for run in runs],
        requests=verbs,
        per="a minute",
        note=note,
    )
    yield Figure(
        name=f"{clients:,} idle clients: processor time of the gateway",
        unit="% of a core",
        values=[100 * run.cpu_s / seconds for run in runs],
        note=note,
    )


async def _create(root: Path, groups: list[str]) -> None:
    async with aio.connect(root, coordination="store", maintenance=False) as lake:
        await lake.create_topic(_TOPIC, TopicSettings(queues=8))
        for group in groups:
            await lake.create_group(group)


async def _idle(server: Served, clients: int, groups: list[str], seconds: float, repeats: int) -> list[Used]:
    """What the server used in each of some stretches of time, after all clients have come and the groups have shared their queues."""
    async with AsyncExitStack() as stack:
        tasks = []
        for number in range(clients):
            channel = await stack.enter_async_context(
                grpc.aio.insecure_channel(server.endpoints, [("grpc.use_local_subchannel_pool", 1)])
            )
            tasks.append(asyncio.create_task(_live(channel, f"bench@{number}", groups[number % len(groups)])))
            if number % 20 == 0:
                await asyncio.sleep(0.1)  # they do not all come in one moment
        await asyncio.sleep(seconds)
        runs = []
        for _ in range(repeats):
            before = server.used()
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
            runs.append(server.used().since(before))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return runs


async def _live(channel: grpc.aio.Channel, name: str, group: str) -> None:
    """A simple consumer that waits for messages."""
    metadata = (("x-mq-client-id", name), *METADATA[1:])
    receive: Any = channel.unary_stream(f"/{SERVICE}/ReceiveMessage")
    beat: Any = channel.unary_unary(f"/{SERVICE}/Heartbeat")
    telemetry: Any = channel.stream_stream(f"/{SERVICE}/Telemetry")
    wanted = receive_request(_TOPIC, group, most=32, poll_s=20)
    heartbeat = pb.HeartbeatRequest(group=pb.Resource(name=group), client_type=pb.SIMPLE_CONSUMER).SerializeToString()
    subscription = pb.Subscription(
        group=pb.Resource(name=group),
        subscriptions=[
            pb.SubscriptionEntry(topic=pb.Resource(name=_TOPIC), expression=pb.FilterExpression(type=pb.TAG, expression="*"))
        ],
    )
    settings = pb.TelemetryCommand(settings=pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription=subscription))

    async def announce() -> AsyncIterator[bytes]:
        yield settings.SerializeToString()
        await asyncio.Event().wait()

    async def listen() -> None:
        async for _ in telemetry(announce(), metadata=metadata):
            pass

    async def poll() -> None:
        while True:
            async for frame in receive(wanted, metadata=metadata, timeout=30):
                code = pb.ReceiveMessageResponse.FromString(frame).status.code
                if code not in (pb.OK, pb.MESSAGE_NOT_FOUND):
                    raise RuntimeError(f"{pb.Code.Name(code)} in answer to a receive")

    async def beats() -> None:
        while True:
            await beat(heartbeat, metadata=metadata)
            await asyncio.sleep(_HEARTBEAT_S)

    async with asyncio.TaskGroup() as tasks:
        for work in (listen, poll, beats):
            tasks.create_task(work())
