"""Drivers that link, batch by batch, what other processes stage: tasks that die, are tried again and run twice, and rivals of one name."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from penstock.log.append.in_flight import AppendResult
from penstock.log.errors import PenstockError, StoreUnavailable
from penstock.log.format.header import Part
from penstock.log.lake import LogLake
from penstock.log.linker import LinkedBatch, Linker, open_linker
from penstock.log.message.batch_rows import BatchQueues, BatchRows, MessageIds, rows_of_messages
from penstock.log.message.message import Message
from penstock.log.message.routing import Router
from penstock.log.produce.receipts import BatchFuture, Receipt, SettledBatch
from penstock.log.stage.jobs import Job, upload_part
from tests.simulation.log.actors import Follower, Maintainer, Role, Sender, Source
from tests.simulation.log.history import Send, Session
from tests.simulation.log.world import TOPIC, World
from tests.simulation.network import Network
from tests.simulation.plans import DAY_S, HOUR_S, rng_of, swarm
from tests.simulation.process import Crashed, SimProcess
from tests.simulation.simulated import Nemesis, log_uniform

TRIES_MAX = 4


class Batches(Source):
    """A source that is copied batch by batch: a batch's messages are in the log together, in one entry, or none is."""

    def __init__(self, name: str, sizes: Sequence[int]) -> None:
        super().__init__(name, sum(sizes))
        self.batches = [range(*ends) for ends in pairwise(accumulate(sizes, initial=0))]


@dataclass(eq=False, slots=True)
class Told:
    """What the sends of one batch share."""

    future: BatchFuture
    ids: MessageIds = field(default_factory=lambda: MessageIds(0, 0))


class Driver(Role):
    """Links a source's batches. What it remembers across crashes is its checkpoint: how many batches it was told are linked."""

    def __init__(
        self,
        name: str,
        source: Batches,
        *,
        think_s: tuple[float, float] = (0.005, 0.5),
        takeover_s: tuple[float, float] = (0.5, 60.0),
        timeout: timedelta = timedelta(seconds=120),
    ) -> None:
        super().__init__(name)
        self._source = source
        self._think_s, self._takeover_s, self._timeout = think_s, takeover_s, timeout
        self._checkpoint = 0

    def goal(self, world: World) -> bool:
        return self._checkpoint >= len(self._source.batches)

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        source, rng = self._source, process.runtime.random
        linker = await open_linker(lake, TOPIC, name=source.name, timeout=self._timeout)
        session = Session(process.name, linker.id, named=True, generation=linker.generation, opened_at=linker.last_batch)
        world.history.sessions.append(session)
        try:
            while not self.goal(world):
                await self._batch(world, process, linker, session)
                await asyncio.sleep(log_uniform(rng, *self._think_s))  # a crash now leaves the link without a checkpoint
                self._checkpoint += 1
        except PenstockError as error:
            if error.kind == "fenced":
                world.counts["fenced"] += 1
                await asyncio.sleep(log_uniform(rng, *self._takeover_s))
            raise
        source.copied[linker.generation] = source.last

    async def _batch(self, world: World, process: SimProcess, linker: Linker, session: Session) -> None:
        batch, source = self._checkpoint, self._source
        messages = [source.message(index, session.process) for index in source.batches[batch]]
        told = Told(BatchFuture())
        if linker.is_linked(batch):
            world.counts["batch linked already"] += 1
            linker.check_repeated(batch, len(messages))
            self._tell(session, messages, told, duplicate=True)
            told.future.set_result(_settled(None, len(messages)))
            return
        sends = self._tell(session, messages, told)
        staged_for, groups = linker.settings.queues, pa.array([one.message_group for one in messages])
        queues = Router(staged_for).route(groups)
        try:
            job = await linker.begin()
            tasks = process.runtime.random.randint(1, 3)
            staged = [self._task(world, linker, job, messages, queues % tasks == task) for task in range(tasks)]
            parts = [part for part in await asyncio.gather(*staged) if part is not None]
            linked = await linker.link(job, parts, batch=batch)
        except PenstockError as error:
            told.future.set_exception(error)
            raise
        world.counts["batch linked"] += 1
        if linked.entry is None and linked.offsets is None:
            # It is there, perhaps by a rival's hand: then with the rival's marks.
            world.counts["batch found to be linked"] += 1
            for send in sends:
                send.receipt.index = -1
        if linker.settings.queues != staged_for:
            world.counts["batch routed anew"] += 1
            queues = Router(linker.settings.queues).route(groups)
        told.future.set_result(_settled(linked, len(messages), queues))

    def _tell(self, session: Session, messages: Sequence[Message], told: Told, *, duplicate: bool = False) -> list[Send]:
        sends = []
        for index, message in enumerate(messages):
            receipt = Receipt.__new__(Receipt)
            receipt.batch, receipt.index = told, -1 if duplicate else index
            sends.append(Send(message.body or b"", receipt))
        session.sends.extend(sends)
        return sends

    async def _task(self, world: World, linker: Linker, job: Job, messages: Sequence[Message], mine: np.ndarray) -> Part | None:
        """A task of the batch: tried on one process after another until one comes to its end, now and then on two at once."""
        kept = [message for message, is_mine in zip(messages, mine, strict=True) if is_mine]
        if not kept:
            return None
        rng = world.rng
        for _ in range(TRIES_MAX):
            runs = [
                asyncio.ensure_future(_on_executor(world, job, kept, linker.settings.queues))
                for _ in range(rng.choice([1, 1, 1, 2]))
            ]
            world.counts["speculative task"] += len(runs) - 1
            ended: set[asyncio.Future[Part | None]] = set()
            while runs and not ended:
                done, _ = await asyncio.wait(runs, return_when=asyncio.FIRST_COMPLETED)
                ended = {run for run in done if run.result() is not None}
                runs = [run for run in runs if run not in done]
            if ended:
                return ended.pop().result()
            world.counts["task tried again"] += 1
        raise StoreUnavailable("the task failed too often", operation="stage")


async def _on_executor(world: World, job: Job, messages: Sequence[Message], queues: int) -> Part | None:
    """The part, or None when the executor failed or died."""
    executor = world.new_process("executor")
    client = world.store.client(executor)
    rows = _rows(messages, queues, executor.runtime.random)
    label = f"{len(messages):05d}"
    try:
        return await executor.run(
            upload_part(client, world.paths, executor.runtime, job.id, label, lambda: rows.part(0, rows.count))
        )
    except (Crashed, PenstockError):
        world.counts["task failed"] += 1
        return None


def _rows(messages: Sequence[Message], queues: int, rng: random.Random) -> BatchRows:
    bodies, groups = [one.body for one in messages], [one.message_group for one in messages]
    ids = MessageIds(rng.getrandbits(64), 0)
    return rows_of_messages(bodies, groups, {}, {}, np.zeros(len(bodies), np.int64), Router(queues), producer="spark", ids=ids)


def _settled(linked: LinkedBatch | None, count: int, queues: np.ndarray | None = None) -> SettledBatch:
    places = BatchQueues(np.zeros(count, np.int32) if queues is None else queues)
    if linked is None or linked.offsets is None:
        return SettledBatch(AppendResult(0, 0, None), places)
    return SettledBatch(AppendResult(linked.entry or 0, 0, {queue: first for queue, (first, _) in linked.offsets.items()}), places)


def linking(seed: int | str, *, rate: float = 0.05) -> World:
    """Sources that are linked batch by batch, by rivals of one name whose tasks run elsewhere; in half the worlds for days."""
    rng = rng_of(seed)
    long = rng.random() < 0.5
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(1.0, 4 * DAY_S) if long else (0.05, HOUR_S), late_s=(1.0, 900.0)),
        drift=0.05,
        faults_end_s=6 * DAY_S if long else 400.0,
        nemesis=Nemesis(
            every_s=(4 * HOUR_S if long else 10.0) if rate else 0.0,
            pause_s=(0.1, DAY_S if long else 300.0),
            wild_step=0.3 if long else 0.0,
        ),
    )
    think_s = (0.05, 4 * HOUR_S) if long else (0.005, 2.0)
    for number in range(rng.randint(1, 2)):
        source = Batches(f"linked{number}", [rng.randint(1, 9) for _ in range(rng.randint(8, 30))])
        world.sources.append(source)
        for rival in range(rng.randint(1, 3)):
            timeout = timedelta(seconds=log_uniform(rng, 1.0, 120.0))
            driver = Driver(f"d{number}.{rival}", source, think_s=think_s, takeover_s=(0.05, 20.0), timeout=timeout)
            world.process(f"d{number}.{rival}", driver)
    world.process("p", Sender("s", bursts=20, think_s=(0.01, HOUR_S if long else 2.0)))
    if long:
        world.process("m", Maintainer("m", every_s=(60.0, 6 * HOUR_S)))
    world.process("reader", Follower("reader", idle_s=(1.0, 60.0) if long else (0.05, 2.0)))
    return world
