"""A lake in virtual time, with workers that come and die, and what looks at all its groups find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from prometheus_client import CollectorRegistry, generate_latest

from penstock.aio import Lake
from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.membership import Subscription
from penstock.consumers.metrics import MemoryMetrics
from penstock.consumers.push import PushConsumer
from penstock.consumers.push_options import PushOptions
from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.cells.keys import group_key, queue_key
from penstock.coordinator.groups.codec import encode_group
from penstock.coordinator.groups.record import GroupRecord, GroupSettings
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.queues.offsets import SettledOffsets
from penstock.infra.lake_metrics import LakeMetrics
from penstock.infra.metrics import PrometheusCollector
from penstock.log import Message, MessageType, MessageView, PenstockError, ProducerOptions, TopicSettings
from penstock.log.metrics import Metric, merge_samples
from penstock.log.stores import MemoryStore, ObjectStore
from penstock.log.stores.counting import CountingStore, StoreStatistics
from penstock.log.stores.wrapper import StoreWrapper
from tests.simulation.kernel import Kernel
from tests.simulation.process import SimClock, SimProcess

INTERVAL = timedelta(seconds=30)
QUEUES = 2
_AT_ONCE = ProducerOptions(linger=timedelta(0))


@dataclass
class Worker:
    """A consumer in a process of its own."""

    process: SimProcess
    lake: Lake
    consumer: PushConsumer
    metrics: MemoryMetrics
    lives: bool = True

    def crash(self) -> None:
        self.process.crash()
        self.lives = False

    async def close(self) -> None:
        self.lives = False
        await self.process.run(self.consumer.close())
        await self.process.run(self.lake.close())


class Shop:
    """One store, with cells in it."""

    def __init__(self, *, wrap: Callable[[ObjectStore], StoreWrapper] | None = None) -> None:
        self.kernel = Kernel("groups")
        self.memory = MemoryStore(name="shop", clock=SimClock(self.kernel.loop))
        self.counted = CountingStore(self.memory if wrap is None else wrap(self.memory))
        self.errors: list[tuple[str, str, PenstockError]] = []
        self._lakes: list[Lake] = []

    def lake(self, process: SimProcess, store: ObjectStore | None = None) -> Lake:
        return Lake(store or self.memory, runtime=process.runtime, coordination="store")

    async def operator(self, *topics: str, queues: int = QUEUES) -> Lake:
        lake = self.lake(self.kernel.process("operator"))
        self._lakes.append(lake)
        for name in topics:
            await lake.create_topic(name, TopicSettings(message_type=MessageType.FIFO, queues=queues))
        return lake

    def exporter(self, *, only: tuple[str, ...] = ()) -> Exporter:
        lake = self.lake(self.kernel.process("exporter"), self.counted)
        self._lakes.append(lake)
        return Exporter(self, LakeMetrics(lake, only=only, interval=INTERVAL))

    async def worker(
        self, group: str, topic: str = "orders", *, answer: Callable[[MessageView], ConsumeResult] = lambda _: ConsumeResult.SUCCESS
    ) -> Worker:
        process = self.kernel.process(f"worker of {group}")
        lake, metrics = self.lake(process), MemoryMetrics()

        async def listen(message: MessageView) -> ConsumeResult:
            return answer(message)

        async def begin() -> PushConsumer:
            consumer = PushConsumer(
                lake,
                lake.coordination,
                group=group,
                subscriptions={topic: Subscription()},
                listener=listen,
                stated={},
                options=PushOptions(metrics=metrics),
            )
            await consumer.start()
            return consumer

        return Worker(process, lake, await process.run(begin()), metrics)

    async def pass_time(self, seconds: float) -> None:
        await self.kernel.let_pass(timedelta(seconds=seconds))

    async def close(self) -> None:
        """Close the lakes of operators and exporters; workers end by themselves."""
        for lake in self._lakes:
            await lake.close()


class Exporter:
    """What `penstock maintain --metrics-port` shows of all groups, looked at when a test wants."""

    def __init__(self, shop: Shop, metrics: LakeMetrics) -> None:
        self._shop = shop
        self._metrics = metrics
        self._served = MemoryMetrics()
        self._served.watch(metrics.samples)

    async def look(self) -> StoreStatistics:
        """Look once. Returns the requests."""
        before = self._shop.counted.statistics()
        await self._metrics.look(lambda name, step, error: self._shop.errors.append((name, step, error)))  # type: ignore[arg-type]
        return self._shop.counted.statistics() - before

    def values(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """The series of a metric, by their labels in the metric's order."""
        return {one.labels: one.value for one in merge_samples(self._metrics.samples()) if one.metric == metric}

    def text(self) -> str:
        """A scrape."""
        return page(self._served)


def page(metrics: MemoryMetrics) -> str:
    """A scrape of these metrics."""
    registry = CollectorRegistry()
    registry.register(PrometheusCollector(metrics))
    return generate_latest(registry).decode()


async def send(lake: Lake, topic: str, count: int) -> None:
    producer = await lake.producer(topic, options=_AT_ONCE)
    for number in range(count):
        await producer.send(Message(b"x", message_group=f"user-{number}"))
    await producer.close()


async def write_groups(lake: Lake, topic: str, groups: int, *, settled: int = 0) -> None:
    """Groups without workers, as those leave them."""
    opened, cells = await lake.topic(topic), Cells(lake.coordination.table, lake.runtime)
    queues = opened.settings.queues
    deadline_s = lake.runtime.clock.monotonic_s() + 3600
    for number in range(groups):
        group = f"group-{number:04}"
        record = GroupRecord(settings=GroupSettings(), secret="00" * 16).begun(topic, (0,) * queues, opened.life)
        await cells.write(group_key(group), encode_group(record), on=None, deadline_s=deadline_s)
        cell = QueueCell(generation=record.positions[topic].generations[0], settled=SettledOffsets(settled))
        for queue in range(queues):
            await cells.write(queue_key(group, topic, queue), encode_cell(cell), on=None, deadline_s=deadline_s)
