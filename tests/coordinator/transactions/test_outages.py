"""What a sender is told while the store does not answer: whether its transaction is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from penstock.coordinator.transactions.errors import CommittedNotVisible, TransactionFailed
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log import Message, MessageType, StoreUnavailable, TopicSettings, UnknownOutcome
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.coordinator.transactions.test_crash_points import ALL, NONE, TOPICS, LoopClock, Process
from tests.log.stores.virtual_time import run_virtual

T = TypeVar("T")


class Deaf(StoreWrapper):
    """Carries out nothing that has this in its key, or carries it out and says nothing."""

    part = ""
    late = False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if not self.part or self.part not in call.key:
            return await run()
        if self.late and call.is_write:
            await run()
        raise StoreUnavailable("no answer", operation=call.verb, object=call.key)


def play(script: Callable[[Deaf, Process, Transaction], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        store = Deaf(MemoryStore(clock=LoopClock()))
        process = Process(store, 1)
        for topic in TOPICS:
            await process.lake.create_topic(topic, TopicSettings(message_type=MessageType.TRANSACTION, queues=2))
        transaction = Transaction(process.transactions, "shop", first_check=timedelta(seconds=60))
        await transaction.send("orders", Message(b"a1"), Message(b"a2"), Message(b"a3"))
        await script(store, process, transaction)
        await process.transactions.close()
        await process.lake.close()

    run_virtual(main())


def test_a_decision_without_an_answer_may_be_asked_for_again() -> None:
    async def script(store: Deaf, process: Process, transaction: Transaction) -> None:
        await transaction.send("bookings", Message(b"b1"))
        for late in (False, True):
            store.part, store.late = "coordination/transactions/", late
            with pytest.raises((UnknownOutcome, StoreUnavailable)):
                await transaction.commit()
        store.part = ""
        receipt = await transaction.commit()
        assert (receipt.topics["orders"].messages, receipt.topics["bookings"].messages) == (3, 1)
        assert await process.seen() == ALL

    play(script)


def test_a_commit_whose_entries_do_not_arrive_is_committed_all_the_same() -> None:
    async def script(store: Deaf, process: Process, transaction: Transaction) -> None:
        await transaction.send("bookings", Message(b"b1"))
        store.part = "bookings/log/"
        with pytest.raises(CommittedNotVisible, match=r"is committed, and not all of its messages are visible yet.*commit again"):
            await transaction.commit()
        store.part = ""
        assert (await process.seen())["orders"] == ALL["orders"]
        _, row = await process.transactions.find(transaction.id or "")
        assert (row.decision, row.by, row.is_finished) == (Decision.COMMITTED, Decider.OWNER, False)
        receipt = await transaction.commit()
        assert receipt.topics["bookings"].messages == 1
        assert await process.seen() == ALL

    play(script)


@pytest.mark.parametrize("part", ["staged/jobs/", "coordination/transactions/"])
@pytest.mark.parametrize("late", [False, True])
def test_a_send_that_fails_leaves_a_transaction_that_is_only_rolled_back(part: str, late: bool) -> None:
    async def script(store: Deaf, process: Process, transaction: Transaction) -> None:
        store.part, store.late = part, late
        with pytest.raises((UnknownOutcome, StoreUnavailable)):
            await transaction.send("bookings", Message(b"b1"))
        store.part = ""
        with pytest.raises(TransactionFailed, match=r"a send of the transaction failed, so it cannot be committed.*roll it back"):
            await transaction.commit()
        with pytest.raises(TransactionFailed, match="a send of the transaction failed before"):
            await transaction.send("orders", Message(b"a4"))
        await transaction.rollback()
        await asyncio.sleep(5.0)
        assert await process.transactions.rows("shop") == []
        assert await process.seen() == NONE
        jobs = [info.key for topic in TOPICS for info in await store.list(f"topics/{topic}/staged/jobs/")]
        assert jobs == []

    play(script)
