"""Clients of gateways, as the official SDKs behave, and native members beside them."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.consumers.handlers.results import ConsumeResult
from penstock.coordinator.queues.receipt_handle import ReceiptRefused
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.log import MessageView
from penstock.log.errors import PenstockError
from tests.consumers.receiving import Member, push
from tests.simulation.gateways.front import WAY_S, Connection, Life, TimedOut, Unreachable
from tests.simulation.gateways.judge import Delivery
from tests.simulation.process import Crashed

if TYPE_CHECKING:
    from tests.simulation.gateways.world import Gateways

GROUP, TOPIC = pb.Resource(name="audit"), pb.Resource(name="orders")
HEARTBEAT_S = 10.0
POLL_S = 5.0
WAIT_S = 3.0
"""A client waits so much longer than it lets a poll last."""
LEAST_S = 0.55
"""A gateway refuses a receive whose client waits for less."""
INVISIBLE_S = 14.0
BATCHES = 3
"""So many batches may be in a client's hands before it asks for more."""
FAILURES = 2
"""A handler that fails is tried again so often by the client itself."""


class StoodStill(TimedOut):
    """A client's time was over while its machine stood still, and its gateway answered in time. SDKs then ask the same gateway again, as each of
    their polls has one gateway; the attempt id may be a new one.
    """


class SdkClient:
    """A consumer of an SDK: its heartbeats, its streams, its receives, and what it does with messages."""

    def __init__(self, world: Gateways, name: str, *, is_push: bool) -> None:
        self.world = world
        self.name = name
        self.is_push = is_push
        self.rng = world.scene.kernel.rng(f"client/{name}")
        kind = self.rng.random()
        self.keeps_attempts = kind < 0.8
        """Whether a receive that failed is repeated with its attempt id, as the SDKs for Python and Node do."""
        self.draws_anew = is_push and kind >= 0.9
        """Whether each request has an attempt id of its own, as with the SDK for Go. All others repeat it where their time was over."""
        self._connections: dict[str, Connection] = {}
        self._streams: dict[str, tuple[Connection, Callable[[], None]]] = {}
        self._asked: dict[int, str] = {}
        """The gateway of each poll."""
        self._numbers = itertools.count(1)
        self._handling: set[asyncio.Task[None]] = set()
        self._working: list[asyncio.Task[None]] = []
        self._opens_streams = self.rng.random() < 0.8

    async def live(self, seconds: float) -> None:
        """Work, and end in one of the ways in which clients end."""
        begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]] = asyncio.ensure_future
        self._working = [begin(self._announce()), *(begin(self._poll(place)) for place in range(1 + self.is_push))]
        done, _ = await asyncio.wait(self._working, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()  # none ends by itself
        says_goodbye = self.rng.random() < 0.6
        await self._stop()
        held = self.world.judge.gone(self.name)
        if says_goodbye:
            self.world.counts["goodbye"] += 1
            told = await self._say_goodbye()
            self.world.later(self.world.judge.frees_soon(self.name, held, told))
        else:
            self.world.counts["lost client"] += bool(held)
        if says_goodbye or self.rng.random() < 0.5:
            for connection, end in self._streams.values():
                if not connection.life.process.crashed:
                    end()

    async def _stop(self) -> None:
        tasks = [*self._working, *self._handling]
        for task in tasks:
            task.cancel()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, Exception):
                raise end

    async def _say_goodbye(self) -> set[Life]:
        """The lives that were told."""
        told: set[Life] = set()

        async def say(gateway: str) -> None:
            request = pb.NotifyClientTerminationRequest(group=GROUP)
            with suppress(Unreachable):
                connection = await self._connection(gateway)
                await self._ask(connection, "NotifyClientTermination", request, 3.0)
                told.add(connection.life)

        await asyncio.gather(*(say(gateway) for gateway in self.world.gateways))
        return told

    # --- Its connections ----------------------------------------------------------------------------------------------------------

    async def _connection(self, gateway: str) -> Connection:
        known = self._connections.get(gateway)
        if known is None or known.life is not self.world.gateways[gateway].life:
            known = self._connections[gateway] = await self.world.gateways[gateway].connect()
        return known

    def _cut(self, gateway: str) -> None:
        """Its connection ends, with the stream on it."""
        if (connection := self._connections.pop(gateway, None)) is not None:
            self.world.counts["cut connection"] += 1
            self.world.judge.cut(connection)
            if (stream := self._streams.pop(gateway, None)) is not None and not connection.life.process.crashed:
                stream[1]()

    async def _ask(
        self,
        connection: Connection,
        rpc: str,
        request: Any,
        wait_s: float,
        answer: Callable[[], Awaitable[list[Any]]] | None = None,
    ) -> list[Any]:
        """The answer to a call. Raises `Unreachable`."""
        life, process = connection.life, connection.life.process
        if process.crashed or not life.is_open:
            raise Unreachable(life.name)

        async def answered() -> list[Any]:
            await asyncio.sleep(self.rng.uniform(*WAY_S))
            self.world.judge.heard(self.name, life)
            if answer is not None:
                return await answer()
            return await life.answer(request, life.call(rpc, self.name, connection, wait_s))

        task, ended = process.spawn(answered()), asyncio.ensure_future(process.ended())
        try:
            await asyncio.wait([task, ended], timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            if not task.done():
                task.cancel()
        if not task.done():
            raise Unreachable(life.name) if process.crashed else TimedOut(life.name)
        return task.result()

    async def _announce(self) -> None:
        """Heartbeats and streams, at every gateway that is there. As in SDKs, a gateway that does not answer delays nobody's next heartbeat."""
        while True:
            began_s = self.world.now_s
            await asyncio.gather(*(self._beat(gateway) for gateway in self.world.gateways))
            await self.world.pass_s(began_s + HEARTBEAT_S - self.world.now_s)

    async def _beat(self, gateway: str) -> None:
        kind = pb.PUSH_CONSUMER if self.is_push else pb.SIMPLE_CONSUMER
        with suppress(Unreachable):
            connection = await self._connection(gateway)
            if self._opens_streams and self._streams.get(gateway, (None,))[0] is not connection:
                settings = pb.Settings(client_type=kind, subscription=pb.Subscription(group=GROUP, fifo=self.world.orderly))
                command = pb.TelemetryCommand(settings=settings)
                self._streams[gateway] = connection, connection.life.stream(self.name, connection, command)
            await self._ask(connection, "Heartbeat", pb.HeartbeatRequest(group=GROUP, client_type=kind), 3.0)

    # --- Receiving ----------------------------------------------------------------------------------------------------------------

    async def _poll(self, place: int) -> None:
        gateway, attempt = list(self.world.gateways)[place], self._name(place)
        while True:
            self._asked[place] = gateway
            while len(self._handling) >= BATCHES:
                await asyncio.wait(self._handling, return_when=asyncio.FIRST_COMPLETED)
            keeps_attempt = self.keeps_attempts
            stays = False
            try:
                received = await self._receive(gateway, attempt)
            except Unreachable as error:
                received, keeps_attempt = None, keeps_attempt or (not self.draws_anew and isinstance(error, TimedOut))
                stays = isinstance(error, StoodStill)
            if received is not None:
                life, messages = received
                attempt = self._name(place)
                if messages:
                    task = asyncio.ensure_future(self._handle(life, messages))
                    self._handling.add(task)
                    task.add_done_callback(self._handled)
                if self.rng.random() < 0.1:
                    gateway = self._elsewhere(place)
                continue
            self.world.counts["receive again"] += 1
            if not (self.is_push and keeps_attempt):
                attempt = self._name(place)
            if (self.rng.random() < 0.5 and not stays) or self.world.gateways[gateway].life is None:
                gateway = self._elsewhere(place)
            await self.world.pass_s(self.rng.uniform(0.05, 1.0))

    def _elsewhere(self, place: int) -> str:
        """Another gateway. Who draws anew has one poll for each, as all SDKs have: what it asks says nothing of another poll's answer then."""
        others = {gateway for other, gateway in self._asked.items() if other != place and self.draws_anew}
        return self.rng.choice([gateway for gateway in self.world.gateways if gateway not in others])

    def _name(self, place: int) -> str:
        return f"{self.name}/{place}/{next(self._numbers)}"

    def _handled(self, task: asyncio.Task[None]) -> None:
        self._handling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.judge.wrong.append(f"{self.name} fails: {error!r}")

    async def _receive(self, gateway: str, attempt: str) -> tuple[Life, list[Any]] | None:
        """The messages of a receive. None: they did not arrive."""
        connection = await self._connection(gateway)
        request = pb.ReceiveMessageRequest(
            group=GROUP,
            message_queue=pb.MessageQueue(topic=TOPIC, id=-1),
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=self.rng.choice((1, 3, 8)),
            auto_renew=self.is_push,
        )
        request.long_polling_timeout.FromTimedelta(timedelta(seconds=POLL_S))
        if self.is_push:
            request.attempt_id = attempt
        else:
            request.invisible_duration.FromTimedelta(timedelta(seconds=INVISIBLE_S))
        trouble = self.rng.random() if self.world.has_troubles else 1.0
        cut_after = self.rng.choice((1, 2, 3)) if trouble < 0.08 else None
        is_late, wait_s = 0.08 <= trouble < 0.14, POLL_S + WAIT_S
        early_s = self.rng.uniform(0.001, 0.5) if is_late else wait_s  # its machine stood still: the gateway does not know
        if is_late and self.draws_anew:
            wait_s = early_s = early_s + LEAST_S
        until_s = self.world.now_s + early_s
        judged = partial(self.world.judge.receive, attempt, self.name, connection, request, wait_s, cut_after)
        frames = await self._ask(connection, "ReceiveMessage", request, early_s, judged)
        if 0.14 <= trouble < 0.2:
            self._cut(gateway)
        if trouble < 0.2:
            self.world.counts["answer lost"] += 1
            if is_late and self.draws_anew:  # it is on its way for longer
                await self.world.pass_s(until_s - self.world.now_s)
            if is_late:
                raise StoodStill(gateway)
            return None
        if frames[0].status.code not in (pb.OK, pb.MESSAGE_NOT_FOUND):
            return None
        life = connection.life
        messages = [frame.message for frame in frames if frame.HasField("message")]
        for message in messages if self.is_push else []:
            await self.world.judge.has(self.name, connection, message, until_s)
        if trouble < 0.26:
            self.world.counts["cut behind an answer"] += bool(messages)
            self._cut(gateway)
        return life, messages

    # --- Handling -----------------------------------------------------------------------------------------------------------------

    async def _handle(self, life: Life, messages: Iterable[Any]) -> None:
        """Message groups side by side, and each of them in order; in a CONCURRENT group all side by side."""
        lanes: defaultdict[str, list[Any]] = defaultdict(list)
        for message in messages:
            lanes[message.body.decode()[0] if self.world.orderly else message.body.decode()].append(message)
        await asyncio.gather(*(self._handle_lane(life, lane) for lane in lanes.values()))

    async def _handle_lane(self, life: Life, messages: list[Any]) -> None:
        later: list[Any] = []
        for message in messages:
            delivery = Delivery(message.body.decode(), message.system_properties.delivery_attempt)
            self.world.judge.begins(delivery, self.name)
            await self.world.pass_s(self._work_s())
            chance = self.rng.random()
            if chance < 0.08 and not self.is_push and self.world.has_troubles:
                self.world.counts["left"] += 1
                break  # it comes again, with those behind it
            if chance < 0.1 and self.is_push and not self.world.orderly:
                await self._change(life, message, delivery)
                break
            if chance < 0.06 and self.is_push:
                await self._settle(life, message, delivery, "ForwardMessageToDeadLetterQueue")
                continue
            self.world.judge.succeeds(delivery)
            if not self.is_push and self.world.orderly and len(messages) > 1 and self.rng.random() < 0.3:
                later.append(message)  # settled behind those that follow it
                continue
            await self._settle(life, message, delivery, "AckMessage")
        for message in later:
            delivery = Delivery(message.body.decode(), message.system_properties.delivery_attempt)
            await self._settle(life, message, delivery, "AckMessage")

    def _work_s(self) -> float:
        if self.is_push and self.rng.random() < 0.06:
            self.world.counts["long handler"] += 1
            return self.rng.uniform(50.0, 100.0)
        return self.rng.uniform(0.01, 1.5)

    async def _change(self, life: Life, message: Any, delivery: Delivery) -> None:
        """The handler failed: let the message come again in a while."""
        request = pb.ChangeInvisibleDurationRequest(
            group=GROUP, topic=TOPIC, receipt_handle=message.system_properties.receipt_handle
        )
        request.invisible_duration.FromTimedelta(timedelta(seconds=self.rng.choice((2, 45))))
        self.world.judge.tries(delivery, settles=False)
        self.world.judge.holds.pop(delivery, None)
        while True:  # gateways renew what nobody answered for as long as the client lives
            with suppress(Unreachable):
                _, answer = await self._tell(life, "ChangeInvisibleDuration", request)
                if answer.status.code in (pb.OK, pb.INVALID_RECEIPT_HANDLE):
                    return
            await self.world.pass_s(1.0)

    async def _settle(self, life: Life, message: Any, delivery: Delivery, rpc: str) -> None:
        """Acknowledge a message, or give it up: again and again until it is answered, first where it came from."""
        judge, handle = self.world.judge, message.system_properties.receipt_handle
        request: Any
        if rpc == "AckMessage":
            request = pb.AckMessageRequest(group=GROUP, topic=TOPIC, entries=[pb.AckMessageEntry(receipt_handle=handle)])
        else:
            request = pb.ForwardMessageToDeadLetterQueueRequest(group=GROUP, topic=TOPIC, receipt_handle=handle)
            judge.gives_up(delivery)
        was_settled = delivery.body in judge.settled
        judge.tries(delivery, settles=True)
        while True:
            with suppress(Unreachable):
                by, answer = await self._tell(life, rpc, request)
                code = answer.status.code
                self.world.counts[f"{rpc}: {pb.Code.Name(code)}"] += 1
                if code == pb.OK and not answer.status.message.startswith("this delivery was over"):
                    judge.confirmed(delivery, by)
                    if rpc != "AckMessage":
                        judge.certain.add(delivery.body)
                if code == pb.OK and self.rng.random() < 0.1 and not was_settled and rpc == "AckMessage":
                    await self._acks_again(life, request, delivery)
                if code in (pb.OK, pb.INVALID_RECEIPT_HANDLE):
                    return
            await self.world.pass_s(1.0)

    async def _acks_again(self, life: Life, request: Any, delivery: Delivery) -> None:
        """As if the answer had been lost."""
        is_settled = delivery.body in self.world.judge.settled
        _, answer = await self._tell(life, "AckMessage", request)
        if is_settled and self.world.steady and answer.status.code == pb.INVALID_RECEIPT_HANDLE:
            self.world.judge.wrong.append(
                f"G8 an acknowledgement of {delivery} that is repeated is answered {answer.status.message}"
            )

    async def _tell(self, life: Life, rpc: str, request: Any) -> tuple[Life, Any]:
        """Say something of a delivery to the gateway that gave it, or to another one if that is gone. Raises `Unreachable`."""
        gateway = life.name if self.world.gateways[life.name].life is life else self.rng.choice(list(self.world.gateways))
        connection = await self._connection(gateway)
        answer = (await self._ask(connection, rpc, request, 5.0))[0]
        if self.world.has_troubles and self.rng.random() < 0.1:
            raise Unreachable(gateway)
        return connection.life, answer


class NativeMember:
    """A process of the library in the same group, which receives, or has a listener."""

    def __init__(self, world: Gateways, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = world.scene.kernel.rng(f"native/{name}")
        self.member: Member | None = None

    async def live(self) -> None:
        while True:
            member = self.member = self.world.scene.member(self.name)
            work = self._listen(member) if self.rng.random() < 0.5 else self._receive(member)
            try:
                await work
            except Crashed:
                self.world.counts["native killed"] += 1
            except PenstockError as error:
                self.world.counts[f"native ended: {error.kind}"] += 1
                member.process.crash()
            await self.world.pass_s(self.rng.uniform(0.5, 5))

    async def _listen(self, member: Member) -> None:
        async def listen(message: MessageView) -> ConsumeResult:
            delivery = self.world.judge.native(message, [message])
            self.world.judge.begins(delivery, self.name)
            await asyncio.sleep(self.rng.uniform(0.01, 1.0))
            self.world.judge.succeeds(delivery)
            self.world.judge.tries(delivery, settles=True)
            self.world.counts["native listener"] += 1
            return ConsumeResult.SUCCESS

        consumer, _ = await push(member, delivery_order="ORDERLY" if self.world.orderly else "CONCURRENT", answer=listen)
        await member.run(consumer.ended())

    async def _receive(self, member: Member) -> None:
        await member.run(member.consume_here())
        while True:
            await member.run(self._receive_once(member))

    async def _receive_once(self, member: Member) -> None:
        messages = await member.consumer.receive(4, timedelta(seconds=INVISIBLE_S), timedelta(seconds=3))
        deliveries = [self.world.judge.native(message, messages) for message in messages]
        for message, delivery in zip(messages, deliveries, strict=True):
            self.world.judge.begins(delivery, self.name)
            await asyncio.sleep(self.rng.uniform(0.01, 1.0))
            self.world.judge.succeeds(delivery)
            self.world.judge.tries(delivery, settles=True)
            try:
                await member.consumer.ack(message)
            except ReceiptRefused:
                self.world.counts["native refused"] += 1
            else:
                self.world.counts["native ack"] += 1
                self.world.judge.confirmed(delivery, None)
