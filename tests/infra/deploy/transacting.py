"""What processes do in transactions, on stores that policies guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Protocol

from penstock.aio import Lake
from penstock.consumers.simple import SimpleConsumer
from penstock.coordinator.transactions.checking.checker import CheckedTransaction, TransactionResolution
from penstock.coordinator.transactions.ids import member_of
from penstock.coordinator.transactions.members.acks import acks_of, settled_by
from penstock.coordinator.transactions.members.state import Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.infra.deploy.access import ProcessRole
from penstock.log import Message, MessageView, ProducerOptions, Runtime
from tests.simulation.kernel import Kernel
from tests.thorough import thoroughly

SETTLING = (ProcessRole.CONSUMER, ProcessRole.TRANSACTIONS)
"""What who consumes, and settles in transactions, is."""
_ENTRIES = thoroughly(70, 10)
"""Enough for a checkpoint."""
_TEN = timedelta(seconds=10)


class Place(Protocol):
    """Where they do it: `World`."""

    kernel: Kernel

    def process(self, role: ProcessRole) -> AbstractAsyncContextManager[Lake]: ...

    def lake(self, role: ProcessRole, runtime: Runtime) -> Lake: ...

    def settling_lake(self, runtime: Runtime) -> Lake: ...

    async def until(self, so: Callable[[], bool]) -> None: ...


async def transact(world: Place) -> None:
    """Commits that race, a rollback, one that a checker decides; and three whose senders died: undecided, and before they finished either way."""
    asked: set[str] = set()

    async def answer(transaction: CheckedTransaction) -> TransactionResolution:
        asked.add(transaction.id)
        return TransactionResolution.COMMIT

    async def paid(lake: Lake) -> Transaction:
        if not lake.checks("payers"):
            lake.check_transactions("payers", answer)
        tx = lake.transaction(producer_group="payers")
        await tx.send("paid", Message(b"paid"), Message(b"paid"))
        return tx

    async def left_behind(lake: Lake, decision: Decision | None) -> None:
        tx = await paid(lake)
        if decision is not None:
            await tx._decide(decision)

    async with world.process(ProcessRole.TRANSACTIONS) as left, world.process(ProcessRole.TRANSACTIONS) as right:
        for _ in range(_ENTRIES):
            await asyncio.gather(*[(await paid(lake)).commit() for lake in (left, right)])
        await (await paid(left)).rollback()
        undecided = await paid(left)
        await world.until(lambda: undecided.id in asked)
    for decision in (None, Decision.COMMITTED, Decision.ROLLED_BACK):
        doomed = world.kernel.process(ProcessRole.TRANSACTIONS)
        await doomed.run(left_behind(world.lake(ProcessRole.TRANSACTIONS, doomed.runtime), decision))
        doomed.crash()


async def settle(world: Place) -> None:
    """Orders that are processed in transactions: one is committed, the senders of the others die before and behind the write that decides."""
    async with world.process(ProcessRole.PRODUCER) as lake:
        producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0)))
        for number in range(_ENTRIES):
            await producer.send(Message(b"paid", message_group=f"user-{number}"))
    for dies in (None, "before", "behind"):
        process = world.kernel.process("settling")
        lake = world.settling_lake(process.runtime)
        await process.run(_settled(lake, dies))
        if dies is None:
            await process.run(lake.close())
        else:
            process.crash()


async def _settled(lake: Lake, dies: str | None) -> None:
    consumer = await lake.simple_consumer("orders", group="billing")
    received: list[MessageView] = []
    while not received:
        received = await consumer.receive(1, _TEN, _TEN)
    tx = lake.transaction(consumer=consumer)
    await tx.send("paid", Message(b"paid"))
    tx.ack(*received)
    if dies is None:
        await tx.commit()
    else:
        await _half_committed(tx, consumer, received, decides=dies == "behind")


async def _half_committed(tx: Transaction, consumer: SimpleConsumer, received: list[MessageView], *, decides: bool) -> None:
    """As `Settlement.commit` begins: what is to be settled is in the transaction's row, and with ``decides`` it is settled too."""
    assert tx.id is not None
    handles, now_ms = consumer.handles_of(received, "ack"), tx._runtime.clock.wall_ms()
    transaction, acks = tx.id, acks_of(handles)
    await tx._transactions.cells.change(member_of(transaction), lambda cell: cell.with_acks(transaction, acks, now_ms=now_ms))
    if decides:
        change = partial(settled_by, transaction=transaction, handles=handles, now_ms=now_ms)
        await consumer.settle_by(acks.topic, acks.queue, handles, change)
