"""A transaction whose sender crashes, or is not answered, at each of its requests; then another process finishes it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import pytest

from penstock.coordinator.coordination import Coordination
from penstock.coordinator.tables import ObjectStoreTable
from penstock.coordinator.transactions.errors import HalfMessagesMissing
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.coordinator.transactions.service import Transactions
from penstock.log import LogLake, Message, MessageType, Runtime, StoreUnavailable, TopicSettings
from penstock.log.errors import PenstockError
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.log.stores.virtual_time import now_s, run_virtual

T = TypeVar("T")
TOPICS = ("orders", "bookings")
ALL = {"orders": [b"a1", b"a2", b"a3"], "bookings": [b"b1"]}
NONE: dict[str, list[bytes]] = {"orders": [], "bookings": []}


class LoopClock:
    def wall_ms(self) -> int:
        return 1_700_000_000_000 + round(now_s() * 1000)

    def monotonic_s(self) -> float:
        return now_s()


class Breaking(StoreWrapper):
    """Of the calls after `armed`, breaks the one of this number, before or after it was carried out."""

    def __init__(self, inner: MemoryStore, number: int, *, after: bool, for_good: bool) -> None:
        super().__init__(inner)
        self._number, self._after, self._for_good = number, after, for_good
        self.calls = 0
        self.armed = False
        self.dead = False
        self.crashed = asyncio.Event()

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self.dead:
            raise asyncio.CancelledError
        if self.crashed.is_set():
            await asyncio.Event().wait()
        if not self.armed:
            return await run()
        self.calls += 1
        if self.calls != self._number:
            return await run()
        if self._after:
            await run()
        if self._for_good:
            self.crashed.set()
            await asyncio.Event().wait()
        raise StoreUnavailable("no answer", operation=call.verb, object=call.key)


@dataclass
class Sender:
    """What the application knows."""

    worked: bool = False
    """The local work is done: all sends had returned before."""
    committed: bool = False
    rolled_back: bool = False
    id: str | None = None
    errors: list[PenstockError] = field(default_factory=list)


class Process:
    def __init__(self, store: MemoryStore | StoreWrapper, seed: int) -> None:
        runtime = Runtime(clock=LoopClock(), random=random.Random(seed), threads=False)
        self.lake = LogLake(store, runtime=runtime)
        self.transactions = Transactions(
            self.lake, Coordination(ObjectStoreTable(store, runtime=self.lake.runtime), self.lake.runtime)
        )

    async def seen(self) -> dict[str, list[bytes]]:
        found = {}
        for topic in TOPICS:
            reader = await self.lake.reader(topic)
            found[topic] = sorted((await reader.to_arrow(columns=["body"]))["body"].to_pylist())
            await reader.close()
        return found


async def work(process: Process, sender: Sender, *, rolls_back: bool) -> None:
    transaction = Transaction(process.transactions, "shop", first_check=timedelta(seconds=60))
    try:
        await transaction.send("orders", Message(b"a1"), Message(b"a2"))
        sender.id = transaction.id
        await transaction.send("bookings", Message(b"b1"))
        await transaction.send("orders", Message(b"a3"))
    except PenstockError as error:
        sender.id = transaction.id
        sender.errors.append(error)
        await ended(sender, transaction.rollback)
        sender.rolled_back = not sender.errors[1:]
        return
    if rolls_back:
        await ended(sender, transaction.rollback)
        sender.rolled_back = True
        return
    sender.worked = True
    await ended(sender, transaction.commit)
    sender.committed = True


async def ended(sender: Sender, end: Callable[[], Awaitable[object]]) -> None:
    """As an application ends it that tries again when it is not told."""
    for _ in range(3):
        try:
            await end()
        except PenstockError as error:
            sender.errors.append(error)
        else:
            return
    raise AssertionError(f"one request that was not answered was too many: {sender.errors}")


async def finished(process: Process, sender: Sender) -> None:
    """What check-backs and finishers do, with the sender's local work as the truth."""
    service = process.transactions
    for group in await service.groups.groups():
        for row in await service.rows(group):
            if row.is_open:
                try:
                    await service.decide(row.id, Decision.COMMITTED if sender.worked else Decision.ROLLED_BACK, Decider.CHECKER)
                except HalfMessagesMissing:
                    assert not sender.worked, "every send had returned"
                    await service.decide(row.id, Decision.ROLLED_BACK, Decider.CHECKS)
            await service.finish(row.id)
            await service.finish(row.id)


async def run(number: int, *, after: bool, for_good: bool, rolls_back: bool) -> int:
    """Returns how many calls there were."""
    inner = MemoryStore(clock=LoopClock())
    founder = Process(inner, 1)
    for topic in TOPICS:
        await founder.lake.create_topic(topic, TopicSettings(message_type=MessageType.TRANSACTION, queues=2))
    store, sender = Breaking(inner, number, after=after, for_good=for_good), Sender()
    process = Process(store, 2)
    for topic in TOPICS:
        await process.lake.topic(topic, writable=True)
    await process.transactions.groups.groups()
    others = asyncio.all_tasks()
    store.armed = True
    working = asyncio.ensure_future(work(process, sender, rolls_back=rolls_back))
    crash = asyncio.ensure_future(store.crashed.wait())
    await asyncio.wait((working, crash), return_when=asyncio.FIRST_COMPLETED)
    calls = store.calls
    if working.done():
        await working
    else:
        store.dead = True
        crashed = asyncio.all_tasks() - others - {crash}
        for task in crashed:
            task.cancel()
        await asyncio.gather(*crashed, return_exceptions=True)
    crash.cancel()
    if sender.committed:
        assert await founder.seen() == ALL
    else:
        for topic, bodies in (await founder.seen()).items():
            assert bodies in ([], ALL[topic] if sender.worked else [])
    await asyncio.sleep(60.0)
    rescuer = Process(inner, 3)
    await finished(rescuer, sender)
    assert await rescuer.seen() == (ALL if sender.worked else NONE)
    for row in await rescuer.transactions.rows("shop"):
        assert row.is_finished
        assert row.decision is (Decision.COMMITTED if sender.worked else Decision.ROLLED_BACK)
    if not for_good:
        store.armed = False
        await process.transactions.close()
    return calls


async def sweep(*, after: bool, for_good: bool, rolls_back: bool) -> int:
    number = 1
    while await run(number, after=after, for_good=for_good, rolls_back=rolls_back) >= number:
        number += 1
    return number - 1


@pytest.mark.parametrize("rolls_back", [False, True], ids=["commit", "rollback"])
@pytest.mark.parametrize("for_good", [False, True], ids=["no answer", "crash"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_every_request_of_a_transaction_may_be_the_last_or_unanswered(after: bool, for_good: bool, rolls_back: bool) -> None:
    requests = run_virtual(sweep(after=after, for_good=for_good, rolls_back=rolls_back))
    assert requests > 10, "the transaction makes more requests than these"
