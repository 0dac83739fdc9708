"""The requests that a workload of `penstock cost` makes; virtual time. `tests/infra/test_cost.py` compares them with the formulas."""

from __future__ import annotations

import asyncio
from collections import Counter

from penstock import ConsumeResult, Message, MessageView, aio
from penstock.consumers import MemoryMetrics
from penstock.infra.cli.lake.maintenance import maintain_forever
from penstock.infra.cost import CellStorage, RequestRates, Workload
from penstock.log import ProducerOptions
from tests.benchmarks.consumers.worlds import DYNAMODB, ON_S3, WorkersWorld
from tests.benchmarks.topics import TOPIC
from tests.benchmarks.virtual import Client


def counted(workload: Workload, *, warm_up_s: float, seconds: float) -> RequestRates:
    """The requests a second that a run of the workload makes: one topic, and one group of one worker, whose listener does nothing."""
    world = WorkersWorld(1, DYNAMODB if workload.cells is CellStorage.DYNAMODB else ON_S3, queues=workload.queues)

    async def handle(_: MessageView) -> ConsumeResult:
        return ConsumeResult.SUCCESS

    async def send(client: Client) -> None:
        producer = await client.lake.producer(TOPIC, options=ProducerOptions(linger=workload.linger))
        chance, rate = client.process.runtime.random, workload.messages_per_s / workload.producers
        while True:
            await asyncio.sleep(chance.expovariate(rate))
            producer.send(Message(b"x" * workload.message_bytes, f"group-{chance.randrange(100)}"))

    async def maintain(client: Client, stop: asyncio.Event) -> None:
        lake = aio.Lake(client.store, runtime=client.process.runtime, coordination="store")
        interval, metrics = workload.publish_interval, MemoryMetrics()
        await maintain_forever(lake, (), lambda *step: None, stop, publish_interval=interval, metrics=metrics)

    async def main() -> RequestRates:
        await world.create_topic(iceberg=workload.iceberg)
        worker = world.worker("worker", handle)
        await worker.start()
        await world.until_shared([worker])
        tasks, stop = [], asyncio.Event()
        for number in range(workload.producers if workload.messages_per_s else 0):
            client = world.client(f"producer-{number}")
            tasks.append(client.process.spawn(send(client)))
        if workload.maintained:
            client = world.client("maintenance")
            tasks.append(client.process.spawn(maintain(client, stop)))
        await asyncio.sleep(warm_up_s)
        store, cells = world.requests(), Counter(world.cell_requests)
        await asyncio.sleep(seconds)
        store, cells = world.requests() - store, world.cell_requests - cells
        stop.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await worker.close()
        return RequestRates(
            put=store.put.requests,
            get=store.get.requests,
            list=store.list.requests,
            table_write=cells["put"],
            table_read=cells["get"] + cells["keys"],
        ) * (1 / seconds)

    return world.run(main())
