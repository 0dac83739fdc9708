"""The applications of a run: what pays orders in transactions, answers check-backs, orders as an operator, and keeps the lake up."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.coordinator.queues.receipt_handle import ReceiptRefused
from penstock.coordinator.transactions.checking.checker import RegisteredChecker, TransactionResolution
from penstock.coordinator.transactions.errors import (
    AcksDecide,
    CommittedNotVisible,
    HalfMessagesMissing,
    TransactionCommitted,
    TransactionEnded,
    TransactionFailed,
    TransactionNotFound,
    TransactionRolledBack,
)
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log.errors import PenstockError, TopicDeleted, TopicNotFound
from penstock.log.message.message import Message
from tests.simulation.simulated import log_uniform
from tests.simulation.transactions import upkeep
from tests.simulation.transactions.machine import Life
from tests.simulation.transactions.plot import GROUP, TOPICS
from tests.simulation.transactions.records import Book, Fate, Sent, Told

if TYPE_CHECKING:
    from tests.simulation.transactions.world import Transacting

_COMMITS = 6
"""So often an application asks again that was not told whether its transaction is committed; then it leaves that to the check-back."""
EXPECTED = (AcksDecide, TransactionEnded, TransactionNotFound, TransactionFailed, TopicDeleted, TopicNotFound)


class Sender:
    """Pays orders: half messages, the application's own database, commit. Several at once, and what it has left when it crashes."""

    def __init__(self, world: Transacting, name: str) -> None:
        self._world = world
        self._left = world.plot.transactions
        self._rng = world.kernel.rng(f"sender/{name}")

    async def work(self, life: Life) -> None:
        asked = RegisteredChecker(Checker(self._world).check, group=GROUP)
        checking = asyncio.ensure_future(upkeep.check_forever(life, asked, self._rng))
        await asyncio.gather(*(self._orders(life) for _ in range(self._world.plot.at_once)))
        await life.leaving.wait()
        await checking

    async def _orders(self, life: Life) -> None:
        while self._left > 0 and not life.leaving.is_set():
            self._left -= 1
            await self._order(life)
            await life.pause(log_uniform(self._rng, *self._world.plot.think_s))

    async def _order(self, life: Life) -> None:
        world, plot, rng = self._world, self._world.plot, self._rng
        name = f"{life.process.name}/{len(world.history.told)}"
        first_check = timedelta(seconds=log_uniform(rng, min(5.0, plot.first_check_s), plot.first_check_s))
        transaction = Transaction(life.transactions, GROUP, first_check=first_check)
        told = Told(name, life.process.name, world.now_s, transaction)
        world.history.told.append(told)
        try:
            for topic in rng.sample(TOPICS[: plot.topics], rng.randint(1, plot.topics)):
                for _ in range(rng.choice([1, 1, 2])):
                    await send(world, told, transaction, topic, rng)
                    await self._think()
        except PenstockError as error:
            world.check_expected(life.process.name, error, EXPECTED)
            if rng.random() < 0.4:
                told.insisted = True
                await commit(world, told, transaction, rng)
            if rng.random() < 0.5:
                await roll_back(world, told, transaction)
            return
        if rng.random() < plot.forgets / 2:
            return
        await self._think()
        book = Book.VOID if rng.random() < plot.backs_out else Book.PAID
        book = world.history.books.setdefault(name, book)  # a check-back may have made it void
        await self._think()
        if rng.random() < plot.forgets / 2:
            return
        if book is Book.PAID:
            await commit(world, told, transaction, rng)
        else:
            await roll_back(world, told, transaction)

    async def _think(self) -> None:
        await asyncio.sleep(log_uniform(self._rng, *self._world.plot.think_s))


async def send(world: Transacting, told: Told, transaction: Any, topic: str, rng: random.Random) -> None:
    """One send of one to three messages."""
    count = rng.randint(1, 3)
    sends = [Sent(topic, f"{told.name}|{len(told.sends) + number}".encode(), world.now_s) for number in range(count)]
    told.sends += sends
    await transaction.send(topic, *(Message(one.body) for one in sends))
    for one in sends:
        one.durable_s = world.now_s


async def commit(world: Transacting, told: Told, transaction: Any, rng: random.Random) -> None:
    """Commit until told what became of it."""
    for _ in range(_COMMITS):
        try:
            await transaction.commit()
        except CommittedNotVisible:
            told.committed_s = told.committed_s or world.now_s
        except TransactionRolledBack:
            told.rolled_back_s = world.now_s
            world.counts["commit: rolled back before"] += 1
            return
        except ReceiptRefused:
            raise
        except TransactionNotFound:
            told.unknown_s = world.now_s
            return
        except TransactionFailed:
            return
        except PenstockError as error:
            world.check_expected(told.process, error)
            world.counts[f"commit: {error.kind}"] += 1
            await asyncio.sleep(log_uniform(rng, 0.1, 100.0))
        else:
            told.committed_s = told.committed_s or world.now_s
            world.counts["commit"] += 1
            if rng.random() < 0.8:
                return
            world.counts["commit repeated"] += 1


async def roll_back(world: Transacting, told: Told, transaction: Any) -> None:
    """Once, and leave it to the check-back if that fails."""
    try:
        await transaction.rollback()
    except TransactionCommitted:
        told.committed_s = told.committed_s or world.now_s
        world.counts["rollback: committed before"] += 1
    except AcksDecide:
        world.counts["rollback: its messages decide"] += 1
    except (TransactionNotFound, TransactionRolledBack):
        return
    except PenstockError as error:
        world.check_expected(told.process, error)
        world.counts[f"rollback: {error.kind}"] += 1
    else:
        told.rolled_back_s = told.rolled_back_s or world.now_s
        world.counts["rollback"] += 1


class Checker:
    """Answers check-backs by the application's database. A sound one: what it says is not paid can never be paid any more."""

    def __init__(self, world: Transacting) -> None:
        self._world = world
        self._rng = world.kernel.rng("checker")

    async def check(self, transaction: Any) -> object:
        world, rng = self._world, self._rng
        world.counts["check-back"] += 1
        if rng.random() < world.plot.unsure:
            how = rng.choice(["unknown", "raises", "hangs", "nonsense"])
            world.counts[f"check-back {how}"] += 1
            if how == "raises":
                raise RuntimeError("the database does not answer")
            if how == "hangs":
                await asyncio.sleep(600.0)
            return None if how == "nonsense" else TransactionResolution.UNKNOWN
        await asyncio.sleep(log_uniform(rng, 0.01, 5.0))
        name = bytes(transaction.messages[0].body).decode().partition("|")[0]
        book = world.history.books.get(name)
        if book is None and rng.random() < 0.5:
            book = world.history.books.setdefault(name, Book.VOID)
        if book is None:
            return TransactionResolution.UNKNOWN
        return TransactionResolution.COMMIT if book is Book.PAID else TransactionResolution.ROLLBACK


async def operate(life: Life) -> None:
    """Commit and roll back what is open, against everybody else."""
    world = life.world
    rng = world.kernel.rng(f"operator/{life.process.name}")
    while not life.leaving.is_set():
        await life.pause(rng.expovariate(1 / world.plot.operator_every_s))
        try:
            rows = [row for row in await life.transactions.rows(GROUP) if row.is_open]
            if not rows or life.leaving.is_set():
                continue
            row, decision = rng.choice(rows), rng.choice([Decision.COMMITTED, Decision.ROLLED_BACK])
            world.history.ordered.setdefault(row.id, set()).add(Fate(decision.name.lower().replace("_", " ")))
            world.counts[f"operator: {decision.name.lower()}"] += 1
            await life.transactions.decide(row.id, decision, Decider.OPERATOR)
            await life.transactions.finish(row.id)
        except PenstockError as error:
            world.check_expected("operator", error, (*EXPECTED, HalfMessagesMissing))


async def finish(life: Life) -> None:
    """Finish what others began, several at once on machines that know nothing of each other."""
    world = life.world
    rng, finisher = world.kernel.rng(f"finisher/{life.process.name}"), upkeep.finisher_of(life)
    while not life.leaving.is_set():
        every_s = (30.0, 1_800.0) if world.quiet else world.plot.finish_every_s
        await life.pause(log_uniform(rng, *every_s) if not world.collecting else world.plot.rest_every_s)
        try:
            await upkeep.finish_once(life, finisher)
        except PenstockError as error:
            world.check_expected(life.process.name, error, EXPECTED)


async def collect(life: Life) -> None:
    """Publish, trim and collect, all topics, at its own pace."""
    world = life.world
    rng = world.kernel.rng(f"collector/{life.process.name}")
    while not life.leaving.is_set():
        await life.pause(log_uniform(rng, *world.plot.collect_every_s) if not world.collecting else world.plot.rest_every_s)
        for topic in world.topics():
            try:
                await upkeep.collect_once(life, topic)
            except PenstockError as error:
                world.check_expected(life.process.name, error, EXPECTED)
