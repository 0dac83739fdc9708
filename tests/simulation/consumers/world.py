"""A lake whose consumers are under attack: machines that consume, producers, operators, a nemesis, and quiet in the end."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from penstock.consumers.dead_letters.redrive import redrive
from penstock.consumers.dead_letters.writer import origin_of
from penstock.consumers.feed.rows import group_hash
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.groups.record import DeadLetterPolicy
from penstock.coordinator.groups.retry import RetryPolicy
from penstock.coordinator.operators.operators import Operators
from penstock.log.errors import CallError, InternalError, InvalidArgument, PenstockError, PermissionDenied, TopicNotFound
from penstock.log.lake import LogLake
from penstock.log.message.message import Message, MessageView
from penstock.log.message.message_type import MessageType
from penstock.log.produce.accumulator import ProducerOptions
from penstock.log.produce.receipts import Receipt
from penstock.log.read.reader import Position
from penstock.log.topic.settings import TopicSettings
from tests.simulation.consumers.judge import judge
from tests.simulation.consumers.judge_former import is_parked_before
from tests.simulation.consumers.machine import Machine
from tests.simulation.consumers.outages import Failing, Outage, break_down
from tests.simulation.consumers.plot import TOPIC, Plot
from tests.simulation.consumers.progress import standing_still
from tests.simulation.consumers.records import History, Letter, Line, Place, Send, Stored
from tests.simulation.consumers.restores import restore
from tests.simulation.consumers.standing import Where, standing
from tests.simulation.consumers.witness import Witness
from tests.simulation.faults import FaultPlan
from tests.simulation.network import Network
from tests.simulation.process import EPOCH_MS, SimProcess
from tests.simulation.simulated import PlottedWorld, Services, Stuck
from tests.simulation.small import few_letters
from tests.simulation.table import TABLE_NETWORK

STORE_NETWORK = Network(very_slow=0.001, time_out_s=8.0, slow_s=(0.2, 8.0), late_s=(0.5, 60.0), pause_s=(0.1, 20.0))
_PROMPT = ProducerOptions(linger=timedelta(0), delivery_timeout=timedelta(seconds=60))
_DLQ_SEQUENCE = "DLQ_SEQUENCE"


class Consuming(PlottedWorld):
    """One run."""

    rule = "C10"
    is_prompt_alone = True

    networks = STORE_NETWORK, replace(TABLE_NETWORK, late_s=(0.5, 30.0), pause_s=(0.1, 20.0))
    plot: Plot

    def __init__(self, seed: int | str, plot: Plot | None = None, **services: Unpack[Services]) -> None:
        super().__init__(seed, plot or Plot(), **services)
        self.history = History(
            settings={name: plan.settings for name, plan in self.plot.groups.items()}, timeout_s=self.plot.timeout_s
        )
        self.history.counts = self.kernel.counts
        lines: list[Line] = [(group, TOPIC, queue) for group in self.plot.groups for queue in range(self.plot.all_queues[-1])]
        self.witness = Witness(self.history, self.kernel.loop, lines, self.store.memory)
        self.table.memory = self.witness
        self._down: list[Outage] = []
        self.machines: Sequence[Machine] = [Machine(self, f"m{number}") for number in range(self.plot.machines)]
        self.tempers: Counter[tuple[str, Place]] = Counter()
        """How often a group's handlers had each message."""
        self.queues = self.plot.queues
        """As many as the topic has."""
        self._known: dict[int, int] = {}
        """How many messages every queue has, as far as was read."""
        self._groups_of: dict[tuple[int, int], str | None] = {}
        self.behave: Callable[[SimProcess, MessageView], Awaitable[object]] | None = None
        """What handlers do with a message, instead of what is in its temper."""
        self.open = asyncio.Event()
        """Cleared while nobody may start."""
        self.open.set()
        self.runs = itertools.count(1)

    @property
    def operator(self) -> SimProcess | None:
        return self.others.get("operator")

    def befall_table(self, plan: FaultPlan | None) -> None:
        """Other faults of the table than it was made with."""
        self._plans = (self._plans[0], plan)

    def _setting(self) -> AbstractContextManager[Any]:
        return few_letters(self.plot.letters) if self.plot.letters else nullcontext()

    def _judged(self) -> list[str]:
        return judge(self.history)

    # --- The run ----------------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        await self._as("founder", self._found)
        if self.plot.outages_every_s:
            store = Failing("store", self._down, lambda: self.now_s, self._plans[0])
            table = Failing("table", self._down, lambda: self.now_s, self._plans[1])
            store.stand_before(self.store)
            table.stand_before(self.table)
            self._plans = (store, table)
        self.store.plan, self.table.plan = self._plans
        for machine in self.machines:
            machine.start()
        producing = asyncio.ensure_future(self._lives("producer", self._produce))
        failing = break_down(self.plot, self._down, self.kernel.rng("outages"), self.counts)
        others = [
            asyncio.ensure_future(work)
            for work in (self._struck(), self._deploy(self.plot.deploys_every_s), failing, restore(self))
        ]
        operating = asyncio.ensure_future(self._lives("operator", self._operate, when=self.open))
        lives = [life for machine in self.machines if (life := machine.life) is not None]
        done, _ = await asyncio.wait(lives, timeout=self.plot.faults_end_s, return_when=asyncio.FIRST_EXCEPTION)
        for life in done:
            life.result()
        self._calm(others)
        await self._within(self.plot.quiet_s, producing, "the producer")
        await self._within(self.plot.quiet_s, operating, "the operator")
        await self._come_to_rest()

    async def _come_to_rest(self) -> None:
        """Wait until all is settled, end everybody, and read what is left."""
        began_s = self.now_s
        await self._settle()
        await self._as("looker", self._look)
        await self._all_settled(began_s)
        self.counts["quiet seconds"] += round(self.now_s - began_s)
        await self._stop_machines()
        await self._settle()
        self.store.plan = self.table.plan = None
        await self._as("auditor", self._audit)
        self.counts["simulated seconds"] += round(self.now_s)
        self.counts["cell bytes, at most"] = max(self.counts["cell bytes, at most"], self.witness.cell_bytes_max)

    def _calm(self, troubles: Iterable[asyncio.Future[Any]]) -> None:
        """No more trouble from now on."""
        for trouble in troubles:
            trouble.cancel()
        self._end_faults(*self._plans)
        self.quiet = True

    async def _all_settled(self, began_s: float) -> None:
        """Until nothing is left to do. Raises `Stuck`, and what a consumer ended with."""
        while left := self.unsettled():
            self._fail_with_the_dead()
            if self.now_s - began_s > self.plot.quiet_s:
                raise Stuck(f"C10 in {self.plot.quiet_s:g} quiet seconds these did not come to an end: {left[:5]}")
            await asyncio.sleep(0.5)

    def _standing_still(self) -> Iterator[str]:
        return standing_still(self)

    def unsettled(self) -> list[str]:
        """Messages that are neither settled nor parked, and dead letters that are not buried."""
        left = []
        for group in self.plot.groups:
            for queue, count in self._known.items():
                cell = self.witness.cells.get((group, TOPIC, queue))
                if cell is None:
                    left += [f"{group}/{queue}: nobody took it"] if count else []
                    continue
                if self.witness.is_behind((group, TOPIC, queue)):
                    left.append(f"{group}/{queue}: an order was not carried out: {cell}")
                if cell.dead_letters.assigned:
                    left.append(f"{group}/{queue}: {cell.dead_letters}")
                for offset in range(cell.settled.floor if not cell.tries and not cell.markers else 0, count):
                    lane = self._hash(group, queue, offset)
                    stands = standing(cell, offset, lane)
                    waits = stands.where is not Where.DONE and not stands.parked
                    if waits and not self._is_parked_before(group, queue, lane):
                        left.append(f"{group}/{queue} at {offset}: {stands}, cell {cell}")
                        break
        return left

    def _is_parked_before(self, group: str, queue: int, lane: int) -> bool:
        return is_parked_before(self.history.growths, lambda other: self.witness.cells.get((group, TOPIC, other)), queue, lane)

    def _hash(self, group: str, queue: int, offset: int) -> int:
        return group_hash(self._groups_of[queue, offset], self.witness.secret(group))

    # --- Who does what ----------------------------------------------------------------------------------------------------------

    def coordination(self, process: SimProcess, lease_times: float = 1.0) -> Coordination:
        return Coordination(self.table.client(process), process.runtime, lease_s=self.plot.lease_s * lease_times)

    async def _found(self, process: SimProcess) -> None:
        lake, coordination = self.lake(process), self.coordination(process)
        kind = MessageType.NORMAL if self.plot.keyless else MessageType.FIFO
        await lake.create_topic(TOPIC, TopicSettings(message_type=kind, queues=self.plot.queues))
        for name, plan in self.plot.groups.items():
            await coordination.groups.create(name, plan.settings)
        await coordination.close()
        await lake.close()

    # --- Producing

    async def _produce(self, process: SimProcess) -> None:
        rng = self.kernel.rng("producing")
        lake = self.lake(process)
        weights = [1 / (rank + 1) for rank in range(self.plot.message_groups)]
        left = self.plot.messages - len(self.history.sends)
        while left > 0:
            try:
                producer = await lake.producer(TOPIC, options=_PROMPT)
            except PenstockError as error:
                self.check_expected("producer", error)
                await asyncio.sleep(1.0)
                continue
            while left > 0:
                count = min(left, rng.randint(*self.plot.burst))
                left -= count
                if not await self._send(producer, rng, weights, count):
                    break
                await asyncio.sleep(rng.expovariate(self.plot.messages / 4 / self.plot.send_for_s))
            with suppress(PenstockError):
                await producer.close()
        with suppress(PenstockError):
            await lake.close()

    async def _send(self, producer: Any, rng: random.Random, weights: list[float], count: int) -> bool:
        sent: list[tuple[bytes, Receipt]] = []
        for _ in range(count):
            body = f"message {len(self.history.sends) + len(sent)}".encode()
            group = None if self.plot.keyless else f"g{rng.choices(range(len(weights)), weights)[0]}"
            try:
                sent.append((body, producer.send(Message(body, message_group=group, tag=rng.choice(self.plot.tags)))))
            except PenstockError as error:
                self.check_expected("producer", error)
                break
        fine = len(sent) == count
        for body, receipt in sent:
            place: Place | None = None
            try:
                result = await receipt
                if result.queue is not None and result.offset is not None:
                    place = (TOPIC, result.queue, result.offset)
            except PenstockError as error:
                self.check_expected("producer", error)
                fine = False
            self.history.sends.append(Send(body, place))
        return fine

    # --- Operating

    async def _operate(self, process: SimProcess) -> None:
        rng = self.kernel.rng(f"operating/{process.name}")
        lake, coordination = self.lake(process), self.coordination(process)
        operators = Operators(lake, coordination)
        while self.plot.orders_every_s and not self.quiet:
            await asyncio.sleep(rng.expovariate(1 / self.plot.orders_every_s))
            try:
                await self._order(rng, lake, operators)
            except PenstockError as error:
                unbegun = isinstance(error, InvalidArgument) and "has not begun on this topic" in error.message
                self.check_expected("operator", error, allowed=isinstance(error, TopicNotFound) or unbegun)
        await self._alter_back(operators)
        await self._settle_parked(operators)
        await coordination.close()
        with suppress(PenstockError):
            await lake.close()

    async def _order(self, rng: random.Random, lake: LogLake, operators: Operators) -> None:
        group = rng.choice(list(self.plot.groups))
        what = rng.choice(["reset", "release", "release", "skip", "redrive"] + 4 * ["alter"] * self.plot.alters)
        if what == "reset":
            queues = rng.sample(range(self.queues), rng.randint(1, self.queues)) if rng.random() < 0.5 else None
            to = rng.choice(["earliest", "latest", "some", "time"])
            place: Position = "earliest"
            if to == "latest":
                place = "latest"
            elif to == "time":
                place = datetime.fromtimestamp((EPOCH_MS / 1000) + self.now_s * rng.random(), UTC)
            elif to == "some":
                queue = rng.randrange(self.queues)
                reader = await lake.reader(TOPIC)
                _, following = (await reader.offsets())[queue]
                place, queues = rng.randint(0, following), [queue]
            await operators.reset(group, TOPIC, place, queues)
        elif what == "release":
            await operators.release(group)
        elif what == "skip":
            await operators.skip(group)
        elif what == "alter":
            await self._alter(rng, group, operators)
        else:
            self.counts["redriven"] += (await redrive(lake, group, limit=rng.choice([None, 2]))).sent
        self.counts[f"order: {what}"] += 1

    async def _alter(self, rng: random.Random, group: str, operators: Operators) -> None:
        changes: dict[str, list[Any]] = {
            "max_attempts": [1, 2, 3, 6, None],
            "retry": [RetryPolicy(interval=timedelta(seconds=seconds)) for seconds in (0.1, 1.0, 8.0)],
            "filters": [{}, {TOPIC: "*"}, {TOPIC: "a"}, {TOPIC: "b"}, {TOPIC: "a || b"}],
        }
        if self.history.is_orderly(group):
            changes["dead_letter_policy"] = list(DeadLetterPolicy)
        chosen = rng.sample(sorted(changes), rng.choice([1, 1, 2]))
        await operators.alter(group, **{name: rng.choice(changes[name]) for name in chosen})

    async def _alter_back(self, operators: Operators) -> None:
        """In quiet, so that whatever always fails comes to its end."""
        for group, plan in self.plot.groups.items() if self.plot.alters else ():
            while True:
                with suppress(PenstockError):
                    await operators.alter(group, max_attempts=plan.max_attempts, retry=plan.settings.retry)
                    break
                await asyncio.sleep(1.0)

    async def _settle_parked(self, operators: Operators) -> None:
        """In quiet, half of the operators leave nothing parked for a moment."""
        if self.kernel.rng("tidy").random() < 0.5:
            return
        for group in self.plot.groups:
            while True:
                with suppress(PenstockError):
                    await operators.skip(group)
                    break
                await asyncio.sleep(1.0)

    # --- Nemesis

    async def _struck(self) -> None:
        await self._strike(self.plot.nemesis, lambda: [*(machine.process for machine in self.machines), self.operator])

    # --- The end

    async def _look(self, process: SimProcess) -> None:
        """How many messages there are, before anybody says that all are settled."""
        lake = self.lake(process)
        reader = await lake.reader(TOPIC)
        async for message in reader.messages():
            self._groups_of[message.queue, message.offset] = message.message_group
        self._known = {queue: following for queue, (_, following) in (await reader.offsets()).items()}
        self.history.growths = (await lake.topic(TOPIC)).tail.state.growths
        await lake.close()

    async def _audit(self, process: SimProcess) -> None:
        lake = self.lake(process)
        reader = await lake.reader(TOPIC)
        async for message in reader.messages():
            place = (TOPIC, message.queue, message.offset)
            self.history.stored[place] = Stored(message.body, message.message_id, message.message_group, message.tag)
        for group in self.plot.groups:
            found = self.history.letters[group] = []
            with suppress(TopicNotFound):
                reader = await lake.reader(f"%DLQ%{group}")
                async for message in reader.messages():
                    origin = origin_of(message.properties)
                    if origin is None:
                        self.history.wrong.append(f"C8 a dead letter of {group} without an origin: {message}")
                        continue
                    place = (origin.topic, origin.queue, origin.offset)
                    sequence = int(message.properties[_DLQ_SEQUENCE])
                    found.append(Letter(place, sequence, message.body, message.message_id, origin.reason))
        await lake.close()

    def check_expected(self, who: str, error: PenstockError, *, allowed: bool = False, begun: bool = False) -> None:
        """Note an error that nothing in this world explains. What has ``begun`` does not end as it is refused for a moment."""
        self.counts[f"error: {error.kind}"] += 1
        allowed |= isinstance(error, PermissionDenied) and bool(self.plot.outages_every_s) and not begun
        if isinstance(error, InternalError | CallError) and not allowed:
            self.history.wrong.append(f"{who}: {error.kind}: {error}")
