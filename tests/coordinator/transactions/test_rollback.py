"""Rollbacks amid what the transaction is sending: once one has returned nothing becomes visible, and nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from penstock.coordinator.queues.keeper import Change
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.coordinator.transactions.errors import (
    TransactionCommitted,
    TransactionEnded,
    TransactionNotFound,
    TransactionRolledBack,
)
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log import Message, MessageView
from penstock.log.errors import PenstockError
from tests.coordinator.transactions.stage import Member, Stage
from tests.playing import played_on


async def staged(member: Member) -> list[str]:
    return [info.key for info in await member.lake.store.list("topics/paid/staged/")]


async def until(is_so: Callable[[], bool]) -> None:
    """Let everybody take steps until it is so, and no more."""
    for _ in range(60_000):
        if is_so():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never is")


async def check_gone(stage: Stage, transaction: Transaction) -> None:
    """Whoever orders it: nothing of it becomes visible."""
    other = stage.member("other")
    assert transaction.id is not None
    with pytest.raises((TransactionNotFound, TransactionRolledBack)):
        await other.run(other.transactions.decide(transaction.id, Decision.COMMITTED, Decider.OPERATOR))
    assert [row for row in await other.run(other.transactions.rows("pay")) if row.is_open] == []
    assert await other.run(staged(other)) == []
    assert await stage.bodies() == []


@played_on(Stage)
async def test_a_rollback_amid_the_first_send(stage: Stage) -> None:
    sender = stage.member("sender")
    transaction = sender.begin()
    sending = sender.process.spawn(transaction.send("paid", Message(b"x")))
    await until(lambda: transaction.id is not None)
    await sender.run(transaction.rollback())
    with pytest.raises(TransactionRolledBack, match="the transaction was rolled back"):
        await sending
    with pytest.raises(TransactionRolledBack):
        await sender.run(transaction.commit())
    await check_gone(stage, transaction)


@pytest.mark.parametrize("amid_s", [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_a_rollback_at_any_moment_of_the_first_send_and_of_a_later_one(amid_s: float) -> None:
    stage = Stage()

    async def script(sent: int) -> None:
        sender = stage.member(f"sender{sent}")
        transaction = await sender.sent(*[b"before"] * sent) if sent else sender.begin()
        sending = sender.process.spawn(transaction.send("paid", *[Message(b"x")] * 3))
        await until(lambda: transaction.id is not None)
        await stage.let_pass(amid_s)
        await sender.run(transaction.rollback())
        assert await sender.run(staged(sender)) == []
        with suppress(TransactionRolledBack):
            await sending
        await check_gone(stage, transaction)

    async def both() -> None:
        await script(0)
        await script(1)

    stage.play(both)


@pytest.mark.parametrize("sent", [0, 1])
@played_on(Stage)
async def test_a_rollback_waits_for_uploads_that_are_on_their_way_and_deletes_them(stage: Stage, sent: int) -> None:
    sender = stage.member("sender")
    transaction = await sender.sent(b"before") if sent else sender.begin()
    gate = stage.store.hold("before", process="sender", verb="put", key=lambda key: "/staged/jobs/" in key)
    sending = sender.process.spawn(transaction.send("paid", Message(b"x")))
    await gate.reached()
    rolling = sender.process.spawn(transaction.rollback())
    await stage.let_pass(1.0)
    assert not rolling.done(), "nobody knows yet what the send leaves"
    gate.release()
    await rolling
    await sending
    await stage.let_pass(5.0)
    await check_gone(stage, transaction)


@played_on(Stage)
async def test_a_rollback_before_anything_was_counted_in(stage: Stage) -> None:
    sender = stage.member("sender")
    transaction = sender.begin()
    sending = sender.process.spawn(transaction.send("paid", Message(b"x")))
    await asyncio.sleep(0)
    assert transaction.id is None, "it is asking for the topic"
    await sender.run(transaction.rollback())
    with pytest.raises(TransactionRolledBack):
        await sending
    assert await sender.run(staged(sender)) == []


@pytest.mark.parametrize("bad", ["nosuch", "paid"])
@played_on(Stage)
async def test_a_block_that_an_error_leaves_amid_another_send(stage: Stage, bad: str) -> None:
    sender = stage.member("sender")
    transaction = sender.begin()

    async def block() -> None:
        async with transaction:
            sends = transaction.send("paid", Message(b"x")), transaction.send(bad, b"no message")  # type: ignore[arg-type]
            await asyncio.gather(*sends)

    with pytest.raises(PenstockError) as left:
        await sender.run(block())
    assert not isinstance(left.value, TransactionRolledBack)
    with pytest.raises(TransactionRolledBack):
        await sender.run(transaction.send("paid", Message(b"y")))
    await stage.let_pass(30.0)
    assert await sender.run(staged(sender)) == []
    assert await sender.run(sender.transactions.rows("pay")) == []


@played_on(Stage)
async def test_a_rollback_that_is_broken_off_takes_no_send_and_is_to_be_repeated(stage: Stage) -> None:
    sender = stage.member("sender")
    transaction = await sender.sent(b"before")
    sending = sender.process.spawn(transaction.send("paid", Message(b"x")))
    await until(lambda: bool(transaction._sending))
    rolling = sender.process.spawn(transaction.rollback())
    await until(lambda: transaction._half.given_up)
    rolling.cancel()
    await sending
    with pytest.raises(TransactionRolledBack):
        await sender.run(transaction.send("paid", Message(b"y")))
    await sender.run(transaction.rollback())
    await check_gone(stage, transaction)


class Settling:
    """A consumer that is asked to settle one message, and takes its time."""

    group = "cashier"

    def __init__(self) -> None:
        self.asked, self.end = asyncio.Event(), asyncio.Event()

    async def ack(self, *receipts: MessageView | str) -> None:
        self.asked.set()
        await self.end.wait()

    def handles_of(self, receipts: Sequence[MessageView | str], operation: str) -> list[ReceiptHandle]:
        return [ReceiptHandle(group=self.group, topic="orders", queue=0, offset=0, generation=0, attempt=1, lane=None)]

    async def settle_by(self, topic: str, queue: int, handles: Sequence[ReceiptHandle], change: Change) -> None:
        raise AssertionError("nothing was sent")


@played_on(Stage)
async def test_a_commit_of_acks_alone_takes_no_send_that_comes_meanwhile(stage: Stage) -> None:
    sender, consumer = stage.member("sender"), Settling()
    transaction = Transaction(sender.transactions, "pay", first_check=None, settler=consumer)
    transaction.ack("a receipt")
    committing = sender.process.spawn(transaction.commit())
    await consumer.asked.wait()
    with pytest.raises(TransactionEnded, match="the transaction's commit has begun"):
        await sender.run(transaction.send("paid", Message(b"x")))
    consumer.end.set()
    assert (await committing).transaction_id is None
    with pytest.raises(TransactionCommitted, match="the transaction is committed"):
        await sender.run(transaction.send("paid", Message(b"x")))
