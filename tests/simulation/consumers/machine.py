"""A machine of a run with consumers: the process on it, life after life, and the handlers that run in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

from penstock.consumers.handlers.results import BatchResult, ConsumeResult, RetryAfter
from penstock.consumers.membership import Subscription
from penstock.consumers.push import PushConsumer
from penstock.consumers.push_options import PushOptions
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.groups.record import DeliveryOrder
from penstock.log.errors import InvalidArgument, PenstockError
from penstock.log.lake import LogLake
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import TOPIC, GroupPlan, Temper
from tests.simulation.consumers.records import Answer, Died, Ended, Place, Started, Stood, Token
from tests.simulation.process import SimProcess
from tests.simulation.simulated import SimulatedMachine, log_uniform

if TYPE_CHECKING:
    from tests.simulation.consumers.world import Consuming


class Machine(SimulatedMachine):
    """A machine whose members consume; also started again when it was deployed anew."""

    def __init__(self, world: Consuming, name: str) -> None:
        super().__init__(world, name)
        self.world = world
        self.consumers: dict[str, PushConsumer] = {}
        self.lake: LogLake | None = None
        self.dead: asyncio.Task[None] | None = None
        """Done once it is told that the process has ended."""

    async def before(self) -> None:
        await self.world.open.wait()

    def began(self, process: SimProcess) -> None:
        process.on_stop = partial(self._stands, process.name)
        self.dead = asyncio.ensure_future(self._until_dead(process))

    async def after(self, process: SimProcess) -> None:
        assert self.dead is not None, "a life began"
        await self.dead

    async def _until_dead(self, process: SimProcess) -> None:
        await process.ended()
        self.world.history.records.append(Died(self.world.now_s, process.name))

    def _stands(self, process: str, seconds: float) -> None:
        now_s = self.world.now_s
        self.world.history.records.append(Stood(now_s, process, now_s + seconds))

    async def work(self, process: SimProcess, leaving: asyncio.Event) -> None:
        self.lake = lake = self.world.lake(process)
        mixed = any(plan.mixed for plan in self.world.plot.groups.values())
        coordination = self.world.coordination(process, self._rng.choice([0.6, 1.0, 3.0]) if mixed else 1.0)
        await asyncio.gather(*(self._consume(process, leaving, lake, coordination, group) for group in self.world.plot.groups))
        with suppress(PenstockError):
            await coordination.close()
        with suppress(PenstockError):
            await lake.close()

    async def _consume(
        self, process: SimProcess, leaving: asyncio.Event, lake: LogLake, coordination: Coordination, group: str
    ) -> None:
        """One consumer after the other, should one end by itself."""
        plot = self.world.plot
        handlers = Handlers(self.world, process, group)
        while not leaving.is_set():
            plan = self._drawn(plot.groups[group])
            options = PushOptions(
                threads=plan.threads,
                cache_messages=plan.cache_messages,
                consume_timeout=timedelta(seconds=plot.timeout_s),
                batch=plan.batch,
                batch_messages=plan.batch_messages,
                window=plan.window,
                waiting=plan.waiting,
            )
            contradicts = plan.order is not plot.groups[group].order or plan.filter is not None
            consumer = PushConsumer(
                lake,
                coordination,
                group=group,
                subscriptions={TOPIC: Subscription(plan.filter, plan.start)},
                listener=handlers.of_batch if plan.batch else handlers.of_message,
                stated={"delivery_order": plan.order},
                options=options,
            )
            try:
                await consumer.start()
            except PenstockError as error:
                self.world.check_expected(process.name, error, allowed=contradicts and isinstance(error, InvalidArgument))
                await asyncio.sleep(0.5)
                continue
            if plan.order is not plot.groups[group].order:
                self.world.history.wrong.append(f"C13 {process.name} joined {group} as a {plan.order} one")
            self.consumers[group] = consumer
            ended, left = asyncio.ensure_future(consumer.ended()), asyncio.ensure_future(leaving.wait())
            await asyncio.wait([ended, left], return_when=asyncio.FIRST_COMPLETED)
            left.cancel()
            if ended.done():
                self.world.counts["a consumer ended by itself"] += 1
            try:
                await consumer.close(timeout=None if plot.patience_s is None else timedelta(seconds=plot.patience_s))
                await ended
            except PenstockError as error:
                await asyncio.gather(ended, return_exceptions=True)  # the same error
                self.world.check_expected(process.name, error, begun=True)
                await asyncio.sleep(0.5)

    def _drawn(self, plan: GroupPlan) -> GroupPlan:
        """How a member works that begins now."""
        if not plan.mixed:
            return plan
        rng, orderly = self._rng, plan.order is DeliveryOrder.ORDERLY
        batches: list[Literal["group", "queue"] | None] = [None, "queue", "group"] if orderly else [None, "queue"]
        other = DeliveryOrder.CONCURRENT if orderly else DeliveryOrder.ORDERLY
        return replace(
            plan,
            order=other if rng.random() < 0.1 else plan.order,
            filter=rng.choice(["*", "a", "a || b"]) if rng.random() < 0.3 else None,
            threads=rng.choice([1, 3, 16]),
            cache_messages=rng.choice([1, 4, 1_024]),
            window=rng.choice([4, 20, 10_000]),
            waiting=rng.choice([1, 4, 1_000]),
            batch=rng.choice(batches),
            batch_messages=rng.choice([2, 8]),
        )


class Handlers:
    """The listeners of one group in one process."""

    def __init__(self, world: Consuming, process: SimProcess, group: str) -> None:
        self._world = world
        self._process = process
        self._group = group

    async def of_message(self, message: MessageView) -> object:
        return await self._handle([message])

    async def of_batch(self, messages: Sequence[MessageView]) -> object:
        return await self._handle(messages)

    async def _handle(self, messages: Sequence[MessageView]) -> object:
        run = next(self._world.runs)
        world, records = self._world, self._world.history.records
        tokens = tuple(Token(one.topic, one.queue, one.offset, one.epoch, one.delivery_attempt, one.message_id) for one in messages)
        records.append(Started(world.now_s, self._process.name, self._group, run, tokens))
        done, result = 0, None
        try:
            for message in messages:
                result = await self._one(message)
                if result is not ConsumeResult.SUCCESS:
                    break
                done += 1
        except asyncio.CancelledError:
            records.append(Ended(world.now_s, run, 0, Answer.CUT))
            raise
        except Exception:
            records.append(Ended(world.now_s, run, 0, Answer.FAILED if len(messages) == 1 else Answer.UNNAMED))
            raise
        answer = Answer.OK if done == len(messages) else Answer.FAILED
        if answer is Answer.FAILED and result is ConsumeResult.DEAD_LETTER:
            answer = Answer.REJECTED
        if answer is Answer.FAILED and result is None and len(messages) > 1:
            answer, done = Answer.UNNAMED, 0
        records.append(Ended(world.now_s, run, done, answer))
        if len(messages) == 1 or result is None:
            return result
        return ConsumeResult.SUCCESS if answer is Answer.OK else BatchResult(done, result)  # type: ignore[arg-type]

    async def _one(self, message: MessageView) -> object:
        world = self._world
        if world.behave is not None:
            return await world.behave(self._process, message)
        place: Place = (message.topic, message.queue, message.offset)
        rng = world.kernel.rng(f"message/{self._group}/{message.body!r}")
        tempers = world.plot.tempers
        temper = rng.choices(list(tempers), list(tempers.values()))[0]
        times = rng.randint(1, max(1, (world.plot.groups[self._group].max_attempts or 4) - 1))
        work_s, slow_s = log_uniform(rng, *world.plot.work_s), log_uniform(rng, *world.plot.slow_s)
        world.tempers[self._group, place] += 1
        again = world.tempers[self._group, place] > times
        if temper is not Temper.GOOD:
            world.counts[f"temper: {temper.value}"] += 1
        await asyncio.sleep(work_s)
        match temper:
            case Temper.SLOW:
                await asyncio.sleep(slow_s)
            case Temper.REJECTED:
                return ConsumeResult.DEAD_LETTER
            case Temper.POISON:
                raise RuntimeError("poison")
            case Temper.KILLS:
                await self._kill()
            case Temper.KILLS_ONCE if world.tempers[self._group, place] == 1:
                await self._kill()
            case Temper.RAISES if not again:
                raise RuntimeError("not yet")
            case Temper.FAILS if not again:
                return ConsumeResult.FAILURE
            case Temper.LATER if not again:
                return RetryAfter(timedelta(seconds=slow_s))
            case Temper.NONSENSE if not again:
                return None
            case Temper.HANGS if not again:
                await asyncio.sleep(20 * world.plot.timeout_s)
            case Temper.STUBBORN if not again:
                await self._be_stubborn(rng.uniform(1.0, 2.5) * world.plot.timeout_s)
        return ConsumeResult.SUCCESS

    async def _kill(self) -> None:
        self._process.crash()
        await self._process.halt()

    async def _be_stubborn(self, seconds: float) -> None:
        until_s = self._world.now_s + seconds
        while (left_s := until_s - self._world.now_s) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(left_s)
