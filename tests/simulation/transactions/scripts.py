"""Interleavings of transactions, one at a time, moved by hand in a calm world: what chance would take long to find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from penstock.consumers.membership import Subscription
from penstock.consumers.simple import SimpleConsumer
from penstock.coordinator.cells.keys import PRODUCER_GROUPS, producers_key
from penstock.coordinator.groups.record import DeliveryOrder
from penstock.coordinator.transactions.errors import TransactionNotFound
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log.errors import PenstockError
from tests.simulation.faults import Fault, ScriptedFaults, Where
from tests.simulation.network import Network
from tests.simulation.plans import HOUR_S
from tests.simulation.process import Crashed, SimProcess
from tests.simulation.requests import Gate
from tests.simulation.transactions import applications, upkeep
from tests.simulation.transactions.applications import commit, roll_back, send
from tests.simulation.transactions.losses import Doubtful, Losing, Unnoted
from tests.simulation.transactions.machine import Life
from tests.simulation.transactions.plot import CONSUMERS, GROUP, SOURCE, Plot
from tests.simulation.transactions.records import Book, Fate, Told
from tests.simulation.transactions.world import Transacting

STEADY_STORE = Network(
    latency_ms=dict.fromkeys(("put", "put_large", "get", "get_range", "list", "list_folders", "delete", "clock"), (10.0, 10.0)),
    very_slow=0.0,
)
STEADY_TABLE = Network(
    latency_ms=dict.fromkeys(("put", "get", "delete", "keys"), (5.0, 5.0)), very_slow=0.0, time_out_s=2.0, late_s=(60.0, 90.0)
)
Script = Callable[["Scripted"], Coroutine[Any, Any, None]]


class Scripted(Transacting):
    """A calm world in which a script is played."""

    def __init__(self, script: Script, seed: int | str, *, rate: float = 0.0) -> None:
        messages = 1 if script in CONSUMING else 0
        plot = Plot(topics=1, queues=1, offset_ms=0, drift=0.0, first_check_s=60.0, finishers=1, collectors=1, messages=messages)
        super().__init__(seed, plot, store_network=STEADY_STORE, table_network=STEADY_TABLE)
        self._script = partial(script, self)
        self.topic = self.topics()[0]
        self.rng = self.kernel.rng("script")

    def run(self) -> list[str]:
        return self.play(self._whole)

    async def _whole(self) -> None:
        await self._script()
        self.start_finishers()

    def life(self, name: str) -> Life:
        """A process with a lake open, of which only what the script calls is run."""
        process = self.new_process(name)
        return process.call(lambda: self.open(process, asyncio.Event()))

    def order(self, life: Life, *, book: Book | None = None) -> Told:
        """A transaction that is not begun yet."""
        transaction = Transaction(life.transactions, GROUP, first_check=timedelta(seconds=self.plot.first_check_s))
        told = Told(f"{life.process.name}/{len(self.history.told)}", life.process.name, self.now_s, transaction)
        self.history.told.append(told)
        if book is not None:
            self.history.books[told.name] = book
        return told

    async def sent(self, life: Life, *, book: Book | None = None) -> Told:
        """One whose half messages are durable."""
        told = self.order(life, book=book)
        await life.process.run(send(self, told, told.handle, self.topic, self.rng))
        return told

    async def committed_unlinked(self) -> Told:
        """One that is committed, whose sender died then."""
        life = self.life("sender")
        told = await self.sent(life, book=Book.PAID)
        self.store.plan = self.dies(life.process, f"{self.topic}/log/")
        with suppress(Crashed):
            await life.process.run(commit(self, told, told.handle, self.rng))
        assert self.ledger.rows()[told.id].decision is Decision.COMMITTED
        return told

    def dies(self, process: SimProcess, part: str) -> ScriptedFaults:
        """With its first PUT of a key that contains ``part``, which never leaves."""
        where = Where(process=process.name, verb="put", key=lambda key: part in key)
        return ScriptedFaults([(where, Fault.CRASH_BEFORE)])

    def hold(self, process: SimProcess, verb: str, part: str, side: Any = "before", *, table: bool = False) -> Gate:
        """Hold back a request of a process for a key that contains ``part``."""
        service: Any = self.table if table else self.store
        gate: Gate = service.hold(side, process=process.name, verb=verb, key=lambda key: part in key)
        return gate

    async def consumed(self, life: Life) -> Told:
        """One that has consumed and sent, and has only to be committed."""

        async def work() -> Told:
            consumer = SimpleConsumer(
                life.lake,
                life.coordination,
                group=CONSUMERS,
                subscriptions={SOURCE: Subscription()},
                stated={"delivery_order": DeliveryOrder.CONCURRENT, "max_attempts": None},
            )
            await consumer.start()
            (message,) = await consumer.receive(1, timedelta(seconds=30), timedelta(seconds=60))
            transaction = Transaction(life.transactions, GROUP, first_check=None, settler=consumer)
            told = Told(f"{life.process.name}/0", life.process.name, self.now_s, transaction)
            told.consumed = [(message.topic, message.queue, message.offset)]
            self.history.told.append(told)
            await send(self, told, transaction, self.topic, self.rng)
            transaction.ack(message)
            return told

        return await life.process.run(work())

    def staged(self) -> list[str]:
        """What is staged in transactions now."""
        return [key for key in self.archive.objects() if "/staged/jobs/" in key]

    async def operator(self, told: Told, decision: Decision) -> None:
        """What an operator orders, if it can be."""
        self.history.ordered.setdefault(told.id, set()).add(Fate(decision.name.lower().replace("_", " ")))
        life = self.life("operator")

        async def order() -> None:
            with suppress(*applications.EXPECTED, PenstockError):
                await life.transactions.decide(told.id, decision, Decider.OPERATOR)
                await life.transactions.finish(told.id)

        await life.process.run(order())

    async def keep_up(self, hours: float, *, finish: bool = True) -> None:
        """Let somebody publish, trim and collect, and finish transactions, every six hours."""
        until_s = self.now_s + hours * HOUR_S
        while self.now_s < until_s:
            await self.apart("filler", lambda life: upkeep.fill(life, self.topics(), 10))
            if finish:
                await self.apart("finisher", lambda life: upkeep.finish_once(life, upkeep.finisher_of(life)))
            await self.apart("collector", lambda life: upkeep.collect_once(life, self.topic))
            await asyncio.sleep(6 * HOUR_S)


async def neglect(world: Scripted) -> None:
    """A committed transaction of a dead sender is finished days later, and the collector came first."""
    told = await world.committed_unlinked()
    await world.keep_up(72.0, finish=False)
    assert world.ledger.rows()[told.id].decision is Decision.COMMITTED


async def late_finisher(world: Scripted) -> None:
    """A finisher stands still before its link for four days; others finish, forget and collect meanwhile."""
    told = await world.committed_unlinked()
    late = world.life("late")
    gate = world.hold(late.process, "get", "/staged/jobs/", "after")
    finishing = asyncio.ensure_future(late.process.run(_tried(late.transactions.finish(told.id))))
    await gate.reached()
    await world.keep_up(120.0)
    assert told.id not in world.ledger.rows()
    assert not world.staged(), "what was linked is collected, though the floor is raised in every round"
    gate.release()
    await finishing


async def linked_twice(world: Scripted) -> None:
    """Whoever finishes transactions and whoever was told COMMIT by a checker, in one process, wait to link one for the same entry."""
    told = await world.committed_unlinked()
    life = world.life("finisher")
    gate = world.hold(life.process, "put", f"{world.topic}/log/")
    before = asyncio.ensure_future(life.process.run(upkeep.fill(life, world.topics(), 1)))
    await gate.reached()
    finishing = [asyncio.ensure_future(life.process.run(life.transactions.finish(told.id))) for _ in range(2)]
    await asyncio.sleep(1.0)
    gate.release()
    await asyncio.gather(before, *finishing)
    assert world.ledger.rows()[told.id].is_finished


async def idle(world: Scripted) -> None:
    """A process begins nothing for days, is taken off the list, and then begins again and dies."""
    life = world.life("sender")
    first = await world.sent(life, book=Book.PAID)
    await life.process.run(commit(world, first, first.handle, world.rng))
    await world.keep_up(60.0)
    assert not world.ledger.members
    await world.sent(life)
    life.process.crash()


async def emptied(world: Scripted) -> None:
    """A producer group is named that has no members any more."""
    first = await world.committed_unlinked()
    finisher = world.life("finisher")
    world.table.plan = world.dies(finisher.process, PRODUCER_GROUPS)
    with suppress(Crashed):
        await finisher.process.run(_tidied(finisher, hours=60.0))
    world.table.plan = None
    assert first.id not in world.ledger.rows()
    assert GROUP in world.ledger.names[PRODUCER_GROUPS]
    assert not world.ledger.names[producers_key(GROUP)]


async def _tidied(life: Life, *, hours: float) -> None:
    for _ in range(int(hours // 6)):
        await upkeep.finish_once(life, upkeep.finisher_of(life))
        await asyncio.sleep(6 * HOUR_S)


async def named_amid(world: Scripted) -> None:
    """Whoever forgets a group stands still before that write, while a process of the group begins again and dies."""
    await emptied(world)
    life, finisher = world.life("sender"), world.life("forgetter")
    gate = world.hold(finisher.process, "put", PRODUCER_GROUPS, table=True)
    forgetting = asyncio.ensure_future(finisher.process.run(finisher.transactions.groups.forget(GROUP)))
    await gate.reached()
    await world.sent(life)
    life.process.crash()
    gate.release()
    await forgetting


async def forgotten_amid(world: Scripted) -> None:
    """A process of a group begins again, and stands still before its member is named; the group is forgotten meanwhile, twice."""
    await emptied(world)
    life = world.life("sender")
    gate = world.hold(life.process, "put", producers_key(GROUP), table=True)
    told = world.order(life)
    sending = asyncio.ensure_future(life.process.run(send(world, told, told.handle, world.topic, world.rng)))
    await gate.reached()
    for _ in range(2):
        await world.apart("forgetter", lambda other: other.transactions.groups.forget(GROUP))
    assert GROUP not in world.ledger.names[PRODUCER_GROUPS]
    gate.release()
    await sending
    life.process.crash()


async def doubts(world: Scripted) -> None:
    """A first send of which nobody knows is rolled back by its sender; then its write lands, and an operator commits what is there."""
    life, plan = world.life("sender"), Doubtful()
    world.table.plan = plan
    told = world.order(life, book=Book.VOID)
    failed = False
    try:
        await life.process.run(send(world, told, told.handle, world.topic, world.rng))
    except PenstockError:
        failed = True
    assert failed, "the send was in doubt"
    plan.active = False
    world.store.plan = Losing("/staged/jobs/", "list")  # what was staged stays
    await life.process.run(roll_back(world, told, told.handle))
    world.store.plan = None
    assert told.rolled_back_s is not None
    await asyncio.sleep(200.0)
    await world.operator(told, Decision.COMMITTED)


async def rolled_back_amid(world: Scripted) -> None:
    """A sender rolls back while its first send encodes and joins its group; then an operator commits what is there."""
    life = world.life("sender")
    told = world.order(life, book=Book.VOID)
    gate = world.hold(life.process, "put", "producers/", table=True)
    sending = asyncio.ensure_future(life.process.run(_tried(send(world, told, told.handle, world.topic, world.rng))))
    await gate.reached()
    rolling = asyncio.ensure_future(life.process.run(roll_back(world, told, told.handle)))
    await asyncio.sleep(1.0)
    gate.release()
    await rolling
    assert told.rolled_back_s is not None
    await sending
    await world.operator(told, Decision.COMMITTED)


async def half_a_send(world: Scripted) -> None:
    """A sender dies with a row that lists what is not there, and an operator commits it."""
    life = world.life("sender")
    told = world.order(life)
    world.store.plan = Losing("/staged/jobs/")
    sending = life.process.spawn(send(world, told, told.handle, world.topic, world.rng))
    await asyncio.sleep(5.0)
    assert not sending.done()
    life.process.crash()
    world.store.plan = None
    assert world.ledger.rows()[told.id].is_open
    await world.operator(told, Decision.COMMITTED)


async def sent_meanwhile(world: Scripted) -> None:
    """An operator has seen that all is there, and before it decides the sender begins to send more, and dies."""
    life, operator = world.life("sender"), world.life("operator")
    told = await world.sent(life)
    gate = world.hold(operator.process, "list", "/staged/jobs/", "after")
    deciding = asyncio.ensure_future(
        operator.process.run(_tried(operator.transactions.decide(told.id, Decision.COMMITTED, Decider.OPERATOR)))
    )
    world.history.ordered[told.id] = {Fate.COMMITTED}
    await gate.reached()
    world.store.plan = Losing("/staged/jobs/")
    life.process.spawn(send(world, told, told.handle, world.topic, world.rng))
    await asyncio.sleep(5.0)
    life.process.crash()
    world.store.plan = None
    gate.release()
    await deciding


async def failed_send(world: Scripted) -> None:
    """A send fails for good, and its application commits all the same."""
    life = world.life("sender")
    told = await world.sent(life)
    world.store.plan = Losing("/staged/jobs/")
    await life.process.run(_tried(send(world, told, told.handle, world.topic, world.rng)))
    world.store.plan = None
    told.insisted = True
    await life.process.run(commit(world, told, told.handle, world.rng))


async def unlisted(world: Scripted) -> None:
    """A sender dies before its producer group knows of it."""
    life = world.life("sender")
    world.table.plan = Losing("producers/")
    life.process.spawn(send(world, (told := world.order(life)), told.handle, world.topic, world.rng))
    await asyncio.sleep(5.0)
    life.process.crash()
    world.table.plan = None


async def settled_unnoted(world: Scripted) -> None:
    """A consumer dies between the write that settles its messages, and commits, and the note of that."""
    life = world.life("consumer")
    told = await world.consumed(life)
    world.table.plan = Unnoted(world)
    with suppress(Crashed):
        await life.process.run(commit(world, told, told.handle, world.rng))
    world.table.plan = None
    assert world.ledger.rows()[told.id].is_open


async def settled_late(world: Scripted) -> None:
    """The write that settles is on its way while a finisher looks: nothing is over before the cell says so."""
    life = world.life("consumer")
    told = await world.consumed(life)
    gate = world.hold(life.process, "put", "queues/", table=True)
    committing = asyncio.ensure_future(life.process.run(_tried(commit(world, told, told.handle, world.rng))))
    await gate.reached()
    await world.apart("finisher", lambda other: upkeep.finish_once(other, upkeep.finisher_of(other)))
    gate.release()
    await committing
    life.process.crash()


async def late_commit(world: Scripted) -> None:
    """A check-back rolls back what its sender, after a long sleep, commits; and the sender is told."""
    life = world.life("sender")
    told = await world.sent(life, book=Book.VOID)
    await world.operator(told, Decision.ROLLED_BACK)
    await asyncio.sleep(10 * HOUR_S)
    await life.process.run(commit(world, told, told.handle, world.rng))
    assert told.rolled_back_s is not None


async def committed_by_another(world: Scripted) -> None:
    """What another committed and finished, its sender commits again: the same."""
    life = world.life("sender")
    told = await world.sent(life, book=Book.PAID)
    await world.operator(told, Decision.COMMITTED)
    await asyncio.sleep(2 * HOUR_S)
    await world.apart("finisher", lambda other: upkeep.finish_once(other, upkeep.finisher_of(other)))
    await life.process.run(commit(world, told, told.handle, world.rng))
    assert told.committed_s is not None


async def made_anew(world: Scripted) -> None:
    """The topic is deleted and made again between a commit and its link: nothing of it comes into the later one."""
    told = await world.committed_unlinked()
    began_s = world.now_s

    async def again(life: Life) -> None:
        await life.lake.delete_topic(world.topic)
        await life.lake.create_topic(world.topic, world.settings)

    await world.apart("deleter", again)
    world.history.deleted[world.topic] = [(began_s, world.now_s)]
    await world.apart("finisher", lambda life: upkeep.finish_once(life, upkeep.finisher_of(life)))
    assert world.ledger.rows()[told.id].is_finished


async def _tried(work: Any) -> None:
    with suppress(PenstockError, TransactionNotFound):
        await work


SCRIPTS: Mapping[str, Script] = {
    "neglect": neglect,
    "late finisher": late_finisher,
    "linked twice": linked_twice,
    "idle": idle,
    "named amid": named_amid,
    "forgotten amid": forgotten_amid,
    "doubts": doubts,
    "rolled back amid": rolled_back_amid,
    "half a send": half_a_send,
    "sent meanwhile": sent_meanwhile,
    "failed send": failed_send,
    "unlisted": unlisted,
    "settled unnoted": settled_unnoted,
    "settled late": settled_late,
    "late commit": late_commit,
    "committed by another": committed_by_another,
    "made anew": made_anew,
}
CONSUMING = (settled_unnoted, settled_late)
"""Those that consume a message."""
