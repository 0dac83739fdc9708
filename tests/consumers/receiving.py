"""SimpleConsumers, and push consumers beside them, in virtual time: processes with a lake each, over one simulated store and one simulated table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any

from penstock.consumers.handlers.results import ConsumeResult, RetryAfter
from penstock.consumers.membership import Subscription
from penstock.consumers.push import PushConsumer
from penstock.consumers.push_options import PushOptions
from penstock.consumers.simple import SimpleConsumer, SimpleOptions
from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.operators.operators import Operators
from penstock.coordinator.queues.cell import MessageState, QueueCell
from penstock.coordinator.queues.codec import decode_cell
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.log import LogLake, Message, MessageView, ProducerOptions, TopicSettings
from tests.simulation.faults import FaultPlan
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.process import SimProcess
from tests.simulation.table import CALM_NETWORK

AT_ONCE = ProducerOptions(linger=timedelta(0))
TEN = timedelta(seconds=10)
NOW = timedelta(0)


class Member:
    """A process with a lake open, and at most one consumer."""

    def __init__(self, scene: Scene, process: SimProcess) -> None:
        self.scene, self.process = scene, process
        self.lake = LogLake(scene.store.client(process), runtime=process.runtime)
        self.coordination = Coordination(scene.table.client(process), self.lake.runtime)
        self.operators = Operators(self.lake, self.coordination)
        self._consumer: SimpleConsumer | None = None

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await self.process.run(work)

    async def consume(
        self,
        topics: Sequence[str] = ("orders",),
        *,
        group: str = "audit",
        filter: str | None = None,
        options: SimpleOptions | None = None,
        **stated: object,
    ) -> SimpleConsumer:
        return await self.process.run(self.consume_here(topics, group=group, filter=filter, options=options, **stated))

    async def consume_here(
        self,
        topics: Sequence[str] = ("orders",),
        *,
        group: str = "audit",
        filter: str | None = None,
        options: SimpleOptions | None = None,
        **stated: object,
    ) -> SimpleConsumer:
        """The same, by code of the process itself."""
        self._consumer = SimpleConsumer(
            self.lake,
            self.coordination,
            group=group,
            subscriptions={topic: Subscription(filter) for topic in topics},
            stated=stated,
            options=options,
        )
        await self._consumer.start()
        return self._consumer

    @property
    def consumer(self) -> SimpleConsumer:
        assert self._consumer is not None, "it consumes"
        return self._consumer

    async def receive(self, most: int = 32, *, invisible: timedelta = TEN, wait: timedelta = TEN) -> list[MessageView]:
        found: list[MessageView] = await self.run(self.consumer.receive(most, invisible, wait))
        return found

    async def ack(self, *receipts: MessageView | str) -> None:
        await self.run(self.consumer.ack(*receipts))

    async def send(self, *bodies: str, topic: str = "orders", queue: int | None = None, tag: str | None = None) -> None:
        """Messages whose bodies begin with their message group, each durable before the next; ``-`` stands for none."""
        producer = await self.run(self.lake.producer(topic, options=AT_ONCE))

        async def send() -> None:
            for body in bodies:
                group = None if body.startswith("-") else body[0]
                await producer.send(Message(body.encode(), message_group=group, tag=tag), queue=queue)
            await producer.close()

        await self.run(send())


class Scene:
    """`play` a script on it."""

    def __init__(
        self, seed: int | str = "simple", *, queues: int = 1, plan: FaultPlan | None = None, message_type: str = "FIFO"
    ) -> None:
        self.kernel = Kernel(seed)
        self.store = self.kernel.store(network=Network(very_slow=0.0))
        self.table = self.kernel.table(plan=plan, network=CALM_NETWORK)
        self.settings = TopicSettings(queues=queues, message_type=message_type)  # type: ignore[arg-type]  # the name of one

    @property
    def now_s(self) -> float:
        return self.kernel.loop.now

    def member(self, name: str = "one") -> Member:
        return Member(self, self.kernel.process(name))

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            founder = self.member("founder")
            await founder.run(founder.lake.create_topic("orders", self.settings))
            await script()

        self.kernel.run(main())

    async def let_pass(self, seconds: float) -> None:
        """Wait, in virtual time."""
        await self.kernel.let_pass(timedelta(seconds=seconds))

    async def cell(self, queue: int = 0, *, group: str = "audit", topic: str = "orders") -> QueueCell:
        """As it stands in the table."""
        key = queue_key(group, topic, queue)
        stored = await self.table.memory.get(key)
        assert stored is not None
        return decode_cell(stored.data[WRITE_ID_BYTES:], where=key)

    async def cells(self, *, group: str = "audit", topic: str = "orders") -> dict[int, QueueCell]:
        """All as they stand in the table; a queue that nobody took yet has none, which is as an empty one."""
        keys = {queue: queue_key(group, topic, queue) for queue in range(self.settings.queues)}
        stored = {queue: await self.table.memory.get(key) for queue, key in keys.items()}
        return {
            queue: QueueCell() if one is None else decode_cell(one.data[WRITE_ID_BYTES:], where=keys[queue])
            for queue, one in stored.items()
        }

    async def is_settled(self, messages: int) -> bool:
        """Whether so many messages are done with, and nothing waits."""
        cells = (await self.cells()).values()
        waits = any(cell.tries or cell.markers or cell.dead_letters.assigned for cell in cells)
        return not waits and sum(cell.settled.floor for cell in cells) == messages

    def writes(self, part: str = "queues/") -> int:
        """How many writes of such cells were sent."""
        return sum(call.verb == "put" and part in call.key for call in self.table.calls)

    async def letters(self, group: str = "audit") -> list[MessageView]:
        """The dead letters, as they come to be durable."""
        reader = self.member("reader")

        async def read() -> list[MessageView]:
            found = await reader.lake.reader(f"%DLQ%{group}")
            return [message async for message in found.messages()]

        letters: list[MessageView] = await reader.run(read())
        return letters


def bodies(messages: Sequence[MessageView]) -> list[str]:
    return [message.body.decode() for message in messages]


def attempts(messages: Sequence[MessageView]) -> Mapping[str, int]:
    return {message.body.decode(): message.delivery_attempt for message in messages}


async def succeed(message: MessageView) -> ConsumeResult:
    return ConsumeResult.SUCCESS


async def push(
    member: Member,
    *,
    group: str = "audit",
    delivery_order: str = "ORDERLY",
    options: PushOptions | None = None,
    answer: Callable[[MessageView], Awaitable[ConsumeResult | RetryAfter]] = succeed,
) -> tuple[PushConsumer, list[tuple[float, MessageView]]]:
    """A push consumer, and what its listener was given, and when."""
    heard: list[tuple[float, MessageView]] = []

    async def listen(message: MessageView) -> ConsumeResult | RetryAfter:
        heard.append((member.scene.now_s, message))
        return await answer(message)

    consumer = PushConsumer(
        member.lake,
        member.coordination,
        group=group,
        subscriptions={"orders": Subscription()},
        listener=listen,
        stated={"delivery_order": delivery_order},
        options=options or PushOptions(),
    )
    await member.run(consumer.start())
    return consumer, heard


def out_until_ms(cell: QueueCell, handle: ReceiptHandle, now_ms: int) -> int:
    """Until when a delivery is out, as the cell says; 0 if it is not."""
    if cell.generation != handle.generation:
        return 0
    if handle.lane is None:
        tries = cell.tries.get(handle.offset)
    else:
        marker = cell.markers.get(handle.lane)
        tries = marker.tries if marker is not None and marker.head <= handle.offset < marker.limit else None
    if tries is None or tries.state is not MessageState.OUT or tries.attempts != handle.attempt or tries.due_ms <= now_ms:
        return 0
    return tries.due_ms
